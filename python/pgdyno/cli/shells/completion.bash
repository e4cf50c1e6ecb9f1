# Completion of pgdyno in bash. Put it into ~/.local/share/bash-completion/completions/pgdyno, or:
#   eval "$(pgdyno completion bash)"
_pgdyno_candidates() {
  local IFS=$'\037'
  PGDYNO_WORDS="$*"$'\037' LC_ALL=C awk '@AWK@' <<'PGDYNO_DATA'
@DATA@
PGDYNO_DATA
}

_pgdyno() {
  local word words=() line kinds kind value
  for word in "${COMP_WORDS[@]:1:COMP_CWORD}"; do
    # Quotes are removed, and nothing in the words is evaluated.
    word=${word//\\/}
    words+=("${word//[\"\']/}")
  done
  local cur=${words[${#words[@]} - 1]}
  [ "$cur" != = ] || cur=
  COMPREPLY=()
  while IFS= read -r line; do
    case $line in
      @folder*) compopt -o filenames; mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -d -- "$cur") ;;
      @file*)
        compopt -o filenames
        kinds=${line#@file}
        mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(
          compgen -d -- "$cur"
          [ -n "$kinds" ] || compgen -f -- "$cur"
          for kind in ${kinds//,/ }; do compgen -f -X "!*.$kind" -- "$cur"; done
        )
        ;;
      *)
        # Names of results may come from others. bash itself would not quote each $ and `.
        value=${line%%$'\t'*}
        case ${COMP_WORDS[COMP_CWORD]} in
          [\"\']*) [[ $value == *[\\\"\'\$\`!]* ]] && continue ;;
          *) printf -v value %q "$value" ;;
        esac
        COMPREPLY+=("$value")
        ;;
    esac
  done < <(_pgdyno_candidates "${words[@]}" 2>/dev/null)
  if [ ${#COMPREPLY[@]} -eq 1 ] && [ "${COMPREPLY[0]: -1}" = = ]; then compopt -o nospace; fi
}
complete -F _pgdyno pgdyno
