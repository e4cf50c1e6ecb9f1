# Prints what may stand at the end of a command line: one candidate a line, a tab, what it means. A
# line "@file sql,conf" or "@folder" asks the shell for names of files.
#
# Input: lines of `pgdyno completion`, separated by tabs:
#   V verb meaning | O verb names values meaning | A verb place values | S setting | B builtin meaning
# Environment: PGDYNO_WORDS, the words after "pgdyno" up to the cursor, each followed by \037.
# Names of others stand in files. What moves the cursor of a terminal, or the direction of its text,
# is not offered: bytes, because the locale is C.
function offer(value, meaning) {
  if (index(value, begun) != 1 || value == "" || length(value) > 500) return
  if ((value meaning) ~ /[^\040-\176\200-\377]|\302[\200-\237]|\342(\200[\213-\217\252-\256]|\201[\246-\251])/) return
  print lead value "\t" meaning
}
# Puts the next line of a file of the user into `line`; a file without an end is read in part.
function is_line(path) {
  return reads++ < 20000 && (getline line < path) > 0
}
function is_file(path) {
  gsub(/\047/, "\047\"\047\"\047", path)
  return system("[ -f \047" path "\047 ]") == 0
}
function results(    store, part, kept, i, about_it) {
  store = ENVIRON["PGDYNO_STORE"] == "" ? "pgdyno-runs" : ENVIRON["PGDYNO_STORE"]
  for (i = 2; i < count; i++) if (word[i] == "--store") store = word[i + 1]
  kept = 0
  # A pipe would never end.
  if (is_file(store "/.index")) while (is_line(store "/.index")) {
    split(line, part, "\t")
    if (index(part[1], begun) == 1) { found[++kept] = part[1]; about_it[kept] = part[3] " " part[4] }
    if (begun != "" && index(part[4], begun) == 1) {
      found[++kept] = part[4]; about_it[kept] = "#" part[1] " " part[3]
    }
  }
  offer("last", "the newest result")
  for (i = kept; i > 0 && i > kept - 500; i--) offer(found[i], about_it[i])
}
# The last setting of "name: setting=value; setting".
function variants(    i) {
  if (match(begun, /^.*[ ;:]/)) { lead = lead substr(begun, 1, RLENGTH); begun = substr(begun, RLENGTH + 1) }
  for (i = 1; i <= settings; i++) offer(setting[i] "=", "")
  split("bin data-dir pooler version", own, " ")
  for (i = 1; i in own; i++) offer(own[i] "=", "")
}
function services(    path) {
  path = ENVIRON["PGSERVICEFILE"] == "" ? ENVIRON["HOME"] "/.pg_service.conf" : ENVIRON["PGSERVICEFILE"]
  start = "service="
  if (word[count - 1] == "=" || word[count] == "=") start = ""
  if (is_file(path)) while ((getline line < path) > 0)
    if (line ~ /^\[[^]]+\]/) offer(start substr(line, 2, index(line, "]") - 2), "")
}
# Hosts, ports, databases or users of the file of passwords: a field of its lines, not the last.
function places(field,    path, part) {
  path = ENVIRON["PGPASSFILE"] == "" ? ENVIRON["HOME"] "/.pgpass" : ENVIRON["PGPASSFILE"]
  if (is_file(path)) while (is_line(path))
    if (line !~ /^#/ && length(line) < 5000 && line !~ /\\/ && split(line, part, ":") > 4 && part[field] != "*" && !(part[field] in shown)) {
      shown[part[field]]; offer(part[field], "")
    }
}
function values(kind,    name, i, list, parts) {
  if (kind == "@result") results()
  else if (kind == "@variant") variants()
  else if (kind == "@conninfo") services()
  else if (kind ~ /^@place/) places(substr(kind, 8))
  else if (kind == "@setting") { for (i = 1; i <= settings; i++) offer(setting[i] "=", "") }
  else if (kind == "@builtin") {
    for (i = 1; i <= builtins; i++) offer(builtin[i], about[i])
    print "@file capture"
  }
  else if (kind ~ /^@(file|folder)/) print kind
  else if (kind !~ /^@/) { parts = split(kind, list, "|"); for (i = 1; i <= parts; i++) offer(list[i], "") }
}
BEGIN {
  FS = "\t"
  count = split(ENVIRON["PGDYNO_WORDS"], word, "\037") - 1
  begun = word[count]
}
$1 == "V" { verb[++verbs] = $2; purpose[$2] = $3 }
$1 == "O" { option[++options] = $2; names[options] = $3; kind[options] = $4; meaning[options] = $5 }
$1 == "A" { operand[$2, $3] = $4 }
$1 == "S" { setting[++settings] = $2 }
$1 == "B" { builtin[++builtins] = $2; about[builtins] = $3 }
END {
  if (count <= 1) {
    for (i = 1; i <= verbs; i++) if (verb[i] !~ / /) offer(verb[i], purpose[verb[i]])
    if (begun ~ /^-/) { offer("--help", ""); offer("--version", "") }
    exit
  }
  chosen = word[1]; first = 2
  if (count > 2 && (chosen " " word[2]) in purpose) { chosen = chosen " " word[2]; first = 3 }
  # Some shells split --option=value into three words.
  before = word[count - 1]
  if (begun == "=") { before = word[count - 1]; begun = "" }
  else if (before == "=") before = word[count - 2]
  if (match(begun, /^--[a-z-]+=/)) {
    before = substr(begun, 1, RLENGTH - 1); lead = substr(begun, 1, RLENGTH); begun = substr(begun, RLENGTH + 1)
  }
  place = 1
  for (i = first; i <= count; i++) {
    takes = 0
    for (o = 1; o <= options; o++)
      if (option[o] == chosen && kind[o] != "" && index(" " names[o] " ", " " word[i] " ")) takes = 1
    if (i < count && takes) { i++; continue }
    # Of service=name, split in three, the first word is the operand.
    if (i < count && word[i] !~ /^[-=]/ && word[i + 1] != "=") place++
  }
  for (o = 1; o <= options; o++)
    if (option[o] == chosen && kind[o] != "" && index(" " names[o] " ", " " before " ")) {
      values(kind[o]); exit
    }
  if (begun ~ /^-/) {
    for (o = 1; o <= options; o++) if (option[o] == chosen) {
      parts = split(names[o], list, " ")
      offer(list[parts], meaning[o])
      for (i = 1; i < parts; i++) if (list[i] == begun || begun == "-") offer(list[i], meaning[o])
    }
    exit
  }
  for (i = 1; i <= verbs; i++)
    if (place == 1 && index(verb[i], chosen " ") == 1) offer(substr(verb[i], length(chosen) + 2), purpose[verb[i]])
  if ((chosen, place) in operand) values(operand[chosen, place])
  else if ((chosen, "*") in operand) values(operand[chosen, "*"])
}
