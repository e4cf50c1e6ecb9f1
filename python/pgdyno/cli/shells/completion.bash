# Completion of pgdyno in bash. Put it into ~/.local/share/bash-completion/completions/pgdyno, or:
#   eval "$(pgdyno completion bash)"
_pgdyno_candidates() {
  local IFS=$'\037'
  PGDYNO_WORDS="$*"$'\037' LC_ALL=C awk '@AWK@' <<'PGDYNO_DATA'
@DATA@
PGDYNO_DATA
}

# Sets REPLY to a word as the user would have to type it behind this quote. bash itself leaves $ and
# backquotes in the name of a result as they are, and would run what they hold.
_pgdyno_quoted() {
  REPLY=$2
  case $1 in
    "'") REPLY=${REPLY//"'"/"'\\''"} ;;
    '"')
      REPLY=${REPLY//\\/\\\\}
      REPLY=${REPLY//\"/\\\"}
      REPLY=${REPLY//\$/\\\$}
      REPLY=${REPLY//\`/\\\`}
      REPLY=${REPLY//!/\"\'!\'\"}
      ;;
    *) printf -v REPLY %q "$REPLY" ;;
  esac
}

# Sets REPLY to what a word means, without its quotes; nothing in it is evaluated.
_pgdyno_unquoted() {
  local text=$1 quote= char i
  REPLY=
  for ((i = 0; i < ${#text}; i++)); do
    char=${text:i:1}
    case $quote$char in
      \\ | \"\\) REPLY+=${text:$((++i)):1} ;;
      \' | \") quote=$char ;;
      \'\' | \"\") quote= ;;
      *) REPLY+=$char ;;
    esac
  done
}

_pgdyno() {
  local REPLY word words=() line kinds kind
  for word in "${COMP_WORDS[@]:1:COMP_CWORD}"; do
    _pgdyno_unquoted "$word"
    words+=("$REPLY")
  done
  local cur=${words[${#words[@]} - 1]}
  [ "$cur" != = ] || cur=
  local open=${COMP_WORDS[COMP_CWORD]:0:1}
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
      *) _pgdyno_quoted "$open" "${line%%$'\t'*}" && COMPREPLY+=("$REPLY") ;;
    esac
  done < <(_pgdyno_candidates "${words[@]}" 2>/dev/null)
  if [ ${#COMPREPLY[@]} -eq 1 ] && [ "${COMPREPLY[0]: -1}" = = ]; then compopt -o nospace; fi
}
complete -F _pgdyno pgdyno
