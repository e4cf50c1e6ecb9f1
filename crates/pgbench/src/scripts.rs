//! Chooses the scripts: built-in scripts and files, with their weights.

use std::fs;
use std::io::Read;
use std::os::unix::fs::FileTypeExt;

use pgdyno_script::{BUILTINS, Builtin, PARAMETERS_MAX, VariableTable, parse_as_pgbench};

use super::say::{Fault, fault};

const MAX_SCRIPTS: usize = 128;

/// A chosen script, with its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chosen {
    /// The name in reports: the file's name, or the description of the built-in script.
    pub name: String,
    pub weight: u32,
    pub text: String,
    pub is_builtin: bool,
    /// The file is not UTF-8, so each character of the text stands for one of its bytes.
    pub are_bytes: bool,
}

/// Add the built-in script that `word` names: the beginning of its name, and perhaps `@weight`.
pub(super) fn add_builtin(scripts: &mut Vec<Chosen>, word: &str) -> Result<(), Fault> {
    let (name, weight) = split_weight(word)?;
    let builtin = find(name)?;
    let (name, text) = (builtin.description.into(), builtin.text.into());
    add(scripts, Chosen { name, weight, text, is_builtin: true, are_bytes: false })
}

/// Add the script of the file that `word` names, perhaps with `@weight`. `-` is standard input.
pub(super) fn add_file(scripts: &mut Vec<Chosen>, word: &str) -> Result<(), Fault> {
    let (name, weight) = split_weight(word)?;
    let bytes = match name {
        "-" => {
            let mut bytes = Vec::new();
            std::io::stdin().read_to_end(&mut bytes).map(|_| bytes)
        }
        path if is_device(path) => {
            return Err(fault(format!("could not open file \"{path}\": it is a device"))
                .hint("name a file, or - for standard input"));
        }
        path => fs::read(path),
    };
    let bytes = bytes.map_err(|error| {
        let said = error.to_string();
        let reason = said.split(" (os error").next().unwrap_or_default();
        fault(format!("could not open file \"{name}\": {reason}"))
    })?;
    let are_bytes = std::str::from_utf8(&bytes).is_err();
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        // As pgbench, which does not check encodings: every byte is sent unchanged.
        Err(error) => error.as_bytes().iter().copied().map(char::from).collect(),
    };
    // pgbench reports faults of a script here. The script is read again with the others.
    parse_as_pgbench(name, &text, &mut VariableTable::new()).map_err(|error| {
        let said = error.to_string();
        let said = said.split("\nhint: ").next().unwrap_or_default();
        match &error.hint {
            Some(hint) => fault(said).hint(hint),
            None => fault(said),
        }
    })?;
    add(scripts, Chosen { name: name.into(), weight, text, is_builtin: false, are_bytes })
}

/// Return whether a path names a device, such as /dev/zero, which may have no end. The terminal or
/// the device that is standard input is what the user typed.
fn is_device(path: &str) -> bool {
    let is_device = |path: &str| fs::metadata(path).is_ok_and(|of| of.file_type().is_char_device());
    let place = |path: &str| fs::canonicalize(path).ok();
    is_device(path) && place(path) != place("/dev/stdin")
}

/// Refuse a statement with more variables than pgbench allows in the extended protocols.
pub(super) fn check_parameters(script: &Chosen) -> Result<(), Fault> {
    let Ok(parsed) = parse_as_pgbench(&script.name, &script.text, &mut VariableTable::new()) else {
        return Ok(());
    };
    match parsed.sql_commands().find(|command| command.parameters.len() > PARAMETERS_MAX) {
        None => Ok(()),
        Some(command) => Err(fault(format!(
            "statement has too many arguments (maximum is {PARAMETERS_MAX}): {}",
            command.text
        ))),
    }
}

fn add(scripts: &mut Vec<Chosen>, script: Chosen) -> Result<(), Fault> {
    if scripts.len() >= MAX_SCRIPTS {
        return Err(fault(format!("at most {MAX_SCRIPTS} SQL scripts are allowed")));
    }
    scripts.push(script);
    Ok(())
}

/// Split a word into name and weight, at the last `@`.
fn split_weight(word: &str) -> Result<(&str, u32), Fault> {
    let Some((name, weight)) = word.rsplit_once('@') else { return Ok((word, 1)) };
    match weight.trim_start().parse::<i64>() {
        Err(_) => Err(fault(format!("invalid weight specification: @{weight}"))),
        Ok(number) if (0..=i64::from(i32::MAX)).contains(&number) => Ok((name, number as u32)),
        Ok(number) => {
            Err(fault(format!("weight specification out of range (0 .. {}): {number}", i32::MAX)))
        }
    }
}

fn of_pgbench() -> impl Iterator<Item = &'static Builtin> {
    BUILTINS.iter().filter(|builtin| builtin.is_of_pgbench)
}

fn find(name: &str) -> Result<&'static Builtin, Fault> {
    let matches: Vec<_> = of_pgbench().filter(|builtin| builtin.name.starts_with(name)).collect();
    match matches.as_slice() {
        [builtin] => Ok(builtin),
        [] => Err(fault(format!("no builtin script found for name \"{name}\"")).line(list())),
        several => Err(fault(format!(
            "ambiguous builtin name: {} builtin scripts found for prefix \"{name}\"",
            several.len()
        ))
        .line(list())),
    }
}

/// Return the output of `-b list`.
pub(super) fn list() -> String {
    let lines = of_pgbench().map(|b| format!("  {:>13}: {}\n", b.name, b.description));
    format!("Available builtin scripts:\n{}", lines.collect::<String>())
}

/// Return the output of `--show-script`.
pub(super) fn show(name: &str) -> Result<String, Fault> {
    let Builtin { name, description, text, .. } = find(name)?;
    Ok(format!("-- {name}: {description}\n{text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_refused_by_its_kind() {
        let mut scripts = Vec::new();
        for path in ["/dev/zero", "/dev/full@3"] {
            let error = add_file(&mut scripts, path).expect_err("a device");
            assert!(format!("{error:?}").contains("it is a device"), "{error:?}");
        }
        assert!(scripts.is_empty());
    }

    #[test]
    fn a_weight_follows_the_last_at_sign() {
        assert_eq!(split_weight("a@b.sql@7"), Ok(("a@b.sql", 7)));
        assert_eq!(split_weight("plain"), Ok(("plain", 1)));
        assert!(split_weight("x@").is_err());
        assert!(split_weight("x@-1").is_err());
    }

    #[test]
    fn only_the_scripts_of_pgbench_are_found() {
        let mut scripts = Vec::new();
        add_builtin(&mut scripts, "si@2").expect("simple-update");
        assert_eq!((scripts[0].name.as_str(), scripts[0].weight), ("<builtin: simple update>", 2));
        assert!(add_builtin(&mut scripts, "insert-only").is_err());
        assert!(add_builtin(&mut scripts, "s").is_err());
    }
}
