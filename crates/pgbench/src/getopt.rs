//! Reads options as C's `getopt_long` does: groups of short options, abbreviated long options,
//! operands anywhere, and the same error messages.

/// A long option with its short form, or with a letter that is not a short option.
#[derive(Clone, Copy, Debug)]
pub(super) struct LongOption {
    pub name: &'static str,
    pub takes_value: bool,
    pub code: Code,
}

/// The letter that names the option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Code {
    Short(char),
    Long(&'static str),
}

/// Options with their values, in order, and the operands.
#[derive(Debug, Default)]
pub(super) struct Parsed {
    pub options: Vec<(Code, Option<String>)>,
    pub operands: Vec<String>,
}

/// Split `arguments` into options and operands.
///
/// Args: `short`, as for `getopt`: letters, with a `:` after each that has a value.
///
/// Errors: the text of getopt's message, without the name of the program.
pub(super) fn parse(
    arguments: &[String],
    short: &str,
    long: &[LongOption],
) -> (Parsed, Option<String>) {
    let mut parsed = Parsed::default();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let outcome = if argument == "--" {
            parsed.operands.extend(rest.by_ref().cloned());
            Ok(())
        } else if let Some(word) = argument.strip_prefix("--") {
            read_long(word, long, &mut rest, &mut parsed)
        } else if argument.len() > 1 && argument.starts_with('-') {
            read_short(&argument[1..], short, &mut rest, &mut parsed)
        } else {
            parsed.operands.push(argument.clone());
            Ok(())
        };
        if let Err(message) = outcome {
            return (parsed, Some(message));
        }
    }
    (parsed, None)
}

type Rest<'a> = std::slice::Iter<'a, String>;

fn read_long(
    word: &str,
    long: &[LongOption],
    rest: &mut Rest<'_>,
    parsed: &mut Parsed,
) -> Result<(), String> {
    let (name, value) = match word.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (word, None),
    };
    let begins: Vec<_> = long.iter().filter(|option| option.name.starts_with(name)).collect();
    let exact = begins.iter().find(|option| option.name == name);
    let option = match (exact, begins.as_slice()) {
        (Some(option), _) => option,
        (None, [option]) => option,
        (None, []) => return Err(format!("unrecognized option '--{name}'")),
        (None, several) => {
            let names: Vec<_> = several.iter().map(|o| format!("'--{}'", o.name)).collect();
            return Err(format!(
                "option '--{name}' is ambiguous; possibilities: {}",
                names.join(" ")
            ));
        }
    };
    let value = match (option.takes_value, value) {
        (true, Some(value)) => Some(value),
        (true, None) => match rest.next() {
            Some(value) => Some(value.clone()),
            None => return Err(format!("option '--{}' requires an argument", option.name)),
        },
        (false, Some(_)) => {
            return Err(format!("option '--{}' doesn't allow an argument", option.name));
        }
        (false, None) => None,
    };
    parsed.options.push((option.code, value));
    Ok(())
}

fn read_short(
    letters: &str,
    short: &str,
    rest: &mut Rest<'_>,
    parsed: &mut Parsed,
) -> Result<(), String> {
    let mut letters = letters.chars();
    while let Some(letter) = letters.next() {
        let place = short.find(letter).filter(|_| letter != ':');
        let Some(place) = place else { return Err(format!("invalid option -- '{letter}'")) };
        if !short[place + letter.len_utf8()..].starts_with(':') {
            parsed.options.push((Code::Short(letter), None));
            continue;
        }
        let joined = letters.as_str();
        let value = match (joined.is_empty(), rest) {
            (false, _) => joined.to_owned(),
            (true, rest) => match rest.next() {
                Some(value) => value.clone(),
                None => return Err(format!("option requires an argument -- '{letter}'")),
            },
        };
        parsed.options.push((Code::Short(letter), Some(value)));
        break;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: [LongOption; 3] = [
        LongOption { name: "client", takes_value: true, code: Code::Short('c') },
        LongOption { name: "partitions", takes_value: true, code: Code::Long("partitions") },
        LongOption { name: "partition-method", takes_value: true, code: Code::Long("method") },
    ];

    fn read(arguments: &[&str]) -> (Parsed, Option<String>) {
        let arguments: Vec<_> = arguments.iter().map(ToString::to_string).collect();
        parse(&arguments, "c:Sn", &LONG)
    }

    #[test]
    fn short_options_are_grouped_and_take_the_rest_as_value() {
        let (parsed, error) = read(&["db", "-Snc8", "-c", "9", "--", "-x"]);
        assert_eq!(error, None);
        assert_eq!(parsed.operands, ["db", "-x"]);
        let values: Vec<_> = parsed.options.iter().map(|(_, value)| value.as_deref()).collect();
        assert_eq!(values, [None, None, Some("8"), Some("9")]);
    }

    #[test]
    fn long_options_may_be_cut_short_as_long_as_one_is_meant() {
        assert_eq!(read(&["--cl=3"]).0.options, [(Code::Short('c'), Some("3".into()))]);
        assert_eq!(
            read(&["--part=1"]).1.as_deref(),
            Some(
                "option '--part' is ambiguous; possibilities: '--partitions' '--partition-method'"
            )
        );
        assert_eq!(read(&["--nope"]).1.as_deref(), Some("unrecognized option '--nope'"));
        assert_eq!(
            read(&["--client"]).1.as_deref(),
            Some("option '--client' requires an argument")
        );
        assert_eq!(read(&["-x"]).1.as_deref(), Some("invalid option -- 'x'"));
        assert_eq!(read(&["-c"]).1.as_deref(), Some("option requires an argument -- 'c'"));
    }
}
