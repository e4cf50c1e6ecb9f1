# Completion of pgdyno in fish. Put it into ~/.config/fish/completions/pgdyno.fish, or:
#   pgdyno completion fish | source
set -g __pgdyno_program '@AWK@'
set -g __pgdyno_data '@DATA@'

function __pgdyno_complete
    set -l words (string unescape -- (commandline -opc)) (string unescape -- (commandline -ct))
    set -l begun (commandline -ct)
    set -l joined (printf '%s\037' $words[2..-1] | string collect)
    printf '%s\n' $__pgdyno_data | env LC_ALL=C PGDYNO_WORDS=$joined awk $__pgdyno_program 2>/dev/null | while read -l line
        switch $line
            case '@folder*'
                __fish_complete_directories $begun
            case '@file'
                __fish_complete_path $begun
            case '@file *'
                set -l kinds (string split , -- (string replace '@file ' '' -- $line))
                set -l open $words[-1]
                set -l files $open*
                for file in $files
                    if test -d $file
                        printf '%s/\n' $file
                    else if contains -- (string split -r -m 1 . -- $file)[-1] $kinds
                        printf '%s\n' $file
                    end
                end
            case '*'
                printf '%s\n' $line
        end
    end
end
complete -c pgdyno -f -a '(__pgdyno_complete)'
