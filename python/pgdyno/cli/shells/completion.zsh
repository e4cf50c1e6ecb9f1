#compdef pgdyno
# Completion of pgdyno in zsh. Put it as _pgdyno into a folder of $fpath, or after compinit:
#   eval "$(pgdyno completion zsh)"
_pgdyno_candidates() {
  local IFS=$'\037'
  PGDYNO_WORDS="$*"$'\037' LC_ALL=C awk '@AWK@' <<'PGDYNO_DATA'
@DATA@
PGDYNO_DATA
}

_pgdyno() {
  local line kinds
  local -a offered shown lines
  # PREFIX is the word up to the cursor without the quote that begins it.
  lines=("${(@f)$(_pgdyno_candidates "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
  for line in "${lines[@]}"; do
    case $line in
      '') ;;
      @folder*) _files -/ ;;
      '@file') _files ;;
      @file*) kinds=${line#@file }; _files -g "*.(${kinds//,/|})(-.)" ;;
      *) offered+=("${line%%$'\t'*}"); shown+=("${line//$'\t'/  }") ;;
    esac
  done
  if (( ${#offered} )); then
    if [[ ${offered[1]} == *= ]]; then
      compadd -S '' -l -d shown -a offered
    else
      compadd -l -d shown -a offered
    fi
  fi
}
if [ "$funcstack[1]" = _pgdyno ]; then _pgdyno "$@"; else compdef _pgdyno pgdyno; fi
