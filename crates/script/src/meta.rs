//! Meta commands: what each does, and how its words are read.

use crate::cursor::{Cursor, Fault, Reading, Word};
use crate::expression::{Argument, Expression, Function, nearest_name, parse_expression};
use crate::shell::ShellCommand;
use crate::sleep::{SleepTime, leading_integer};
use crate::value::Value;
use crate::variables::{VariableSlot, VariableTable, is_valid_name};

/// One meta command of a script.
#[derive(Clone, Debug)]
pub struct MetaCommand {
    /// The text as written, from the backslash to the end of its last line.
    pub text: String,
    /// Line of the backslash, counted from 1.
    pub line: usize,
    /// Index among all commands of the script, as pgbench's messages and reports count.
    pub command: usize,
    /// What it does.
    pub action: MetaAction,
}

/// What a meta command does.
#[derive(Clone, Debug)]
pub enum MetaAction {
    /// `\set`, and `\setrandom` of pgbench before 9.6.
    Set(VariableSlot, Expression),
    /// `\sleep`
    Sleep(SleepTime),
    /// `\if`: goes to the command with the index `otherwise` when the condition does not hold.
    If { condition: Expression, otherwise: usize },
    /// `\elif`, as `\if`; a branch that ends here goes on at `endif`.
    Elif { condition: Expression, otherwise: usize, endif: usize },
    /// `\else`; a branch that ends here goes on at `endif`.
    Else { endif: usize },
    /// `\endif`
    Endif,
    /// `\shell`, and `\setshell` when the command assigns a variable.
    Shell(ShellCommand),
    /// `\startpipeline`
    StartPipeline,
    /// `\syncpipeline`
    SyncPipeline,
    /// `\endpipeline`
    EndPipeline,
    /// `\set`, or `\setshell`, of a name that no variable may have: pgbench fails when it runs.
    InvalidName {
        /// What it sets.
        name: String,
        /// It is `\setshell`.
        is_shell: bool,
    },
}

impl MetaCommand {
    /// Returns the command with its words as `pgbench --debug` shows them, without the backslash.
    /// As there, an expression is left out, and the unit of `10us` is repeated.
    pub fn debug_words(&self) -> String {
        let mut cursor = Cursor { text: &self.text, at: 1 };
        let mut words: Vec<&str> =
            std::iter::from_fn(|| cursor.word()).map(|word| word.text).collect();
        match self.action {
            MetaAction::Set(..) | MetaAction::InvalidName { is_shell: false, .. } => {
                words.truncate(2);
            }
            MetaAction::If { .. } | MetaAction::Elif { .. } => words.truncate(1),
            MetaAction::Sleep(_) if words.len() == 2 => {
                let time = Word { text: words[1], offset: 0 };
                words.extend(split_unit(time).1.map(|unit| unit.text));
            }
            _ => {}
        }
        words.join(" ")
    }
}

/// The result of reading a meta command.
pub(crate) enum Parsed {
    Action(MetaAction),
    /// `\gset` (`all` false) or `\aset`, which belong to the SQL command before them.
    Gset {
        all: bool,
        prefix: String,
    },
    /// The old form of a random variable, now a `\set`.
    SetRandom(MetaAction),
}

/// Most words of a command, its name included: MAX_ARGS of pgbench.
const WORDS_MAX: usize = 256;

/// Names of the meta commands.
pub const META_COMMANDS: &[&str] = &[
    "set",
    "sleep",
    "if",
    "elif",
    "else",
    "endif",
    "gset",
    "aset",
    "shell",
    "setshell",
    "startpipeline",
    "syncpipeline",
    "endpipeline",
    "setrandom",
];

/// Parses the meta command at the cursor, which stands behind its backslash, up to the end of its
/// line; returns None when nothing but blanks is there.
pub(crate) fn parse_meta(
    cursor: &mut Cursor<'_>,
    variables: &mut VariableTable,
    reading: Reading,
) -> Result<Option<Parsed>, Fault> {
    let Some(name) = cursor.word() else { return Ok(None) };
    let command = name.text.to_ascii_lowercase();
    let mut reader = Reader { cursor, variables, reading, name };
    let parsed = match command.as_str() {
        "set" => Parsed::Action(reader.set()?),
        "if" => Parsed::Action(MetaAction::If { condition: reader.expression()?, otherwise: 0 }),
        "elif" => {
            let condition = reader.expression()?;
            Parsed::Action(MetaAction::Elif { condition, otherwise: 0, endif: 0 })
        }
        _ => {
            let words = reader.words()?;
            match command.as_str() {
                "sleep" => Parsed::Action(reader.sleep(&words)?),
                "shell" => Parsed::Action(reader.shell(&words)?),
                "setshell" => Parsed::Action(reader.setshell(&words)?),
                "setrandom" => Parsed::SetRandom(reader.setrandom(&words)?),
                "gset" => reader.gset(&words, false)?,
                "aset" => reader.gset(&words, true)?,
                "else" => Parsed::Action(reader.alone(&words, MetaAction::Else { endif: 0 })?),
                "endif" => Parsed::Action(reader.alone(&words, MetaAction::Endif)?),
                "startpipeline" => Parsed::Action(reader.alone(&words, MetaAction::StartPipeline)?),
                "syncpipeline" => Parsed::Action(reader.alone(&words, MetaAction::SyncPipeline)?),
                "endpipeline" => Parsed::Action(reader.alone(&words, MetaAction::EndPipeline)?),
                _ => return Err(reader.unknown(&command)),
            }
        }
    };
    Ok(Some(parsed))
}

/// Reads the words behind the name of a meta command.
struct Reader<'c, 'a> {
    cursor: &'c mut Cursor<'a>,
    variables: &'c mut VariableTable,
    reading: Reading,
    name: Word<'a>,
}

impl<'a> Reader<'_, 'a> {
    fn words(&mut self) -> Result<Vec<Word<'a>>, Fault> {
        let words: Vec<_> = std::iter::from_fn(|| self.cursor.word()).collect();
        match words.get(WORDS_MAX - 1) {
            None => Ok(words),
            Some(extra) => Err(self
                .fault(extra.offset, "too many arguments")
                .hint(format!("a command has at most {WORDS_MAX} words, its name included"))),
        }
    }

    /// Returns a fault of this command: `message`, then the command, as pgbench words it.
    fn fault(&self, offset: usize, message: &str) -> Fault {
        Fault::new(offset, format!("{message} in command \"{}\"", self.name.text))
    }

    fn unknown(&self, command: &str) -> Fault {
        let hint = match nearest_name(command, META_COMMANDS.iter().copied()) {
            Some(nearest) => format!("did you mean \\{nearest}?"),
            None => format!("the meta commands are \\{}", META_COMMANDS.join(", \\")),
        };
        self.fault(self.name.offset, "invalid command").hint(hint)
    }

    fn expression(&mut self) -> Result<Expression, Fault> {
        let (expression, end) =
            parse_expression(self.cursor.text, self.cursor.at, self.variables, self.reading)
                .map_err(|fault| {
                    let mut message =
                        format!("{} in command \"{}\"", fault.message, self.name.text);
                    if let Some(detail) = fault.detail {
                        message = format!("{message}: {detail}");
                    }
                    Fault { offset: fault.offset, message, hint: fault.hint }
                })?;
        self.cursor.at = end;
        self.cursor.end_line();
        Ok(expression)
    }

    /// Returns whether a fault of this name is left for the run.
    fn is_left(&self, name: Word<'_>) -> bool {
        self.reading == Reading::AsPgbench && !is_valid_name(name.text)
    }

    /// Returns the slot of a variable this command sets.
    fn target(&mut self, word: Word<'_>) -> Result<VariableSlot, Fault> {
        if !is_valid_name(word.text) {
            let fault =
                self.fault(word.offset, &format!("invalid variable name: \"{}\"", word.text));
            let bare = word.text.trim_start_matches(':');
            return Err(if bare != word.text && is_valid_name(bare) {
                fault.hint(format!("a variable that is set is written without a colon: {bare}"))
            } else {
                fault.hint("a name is made of letters, digits and _, and no digit is first")
            });
        }
        self.intern(word.text, word.offset)
    }

    fn intern(&mut self, name: &str, offset: usize) -> Result<VariableSlot, Fault> {
        self.variables.intern(name).ok_or_else(|| Fault::too_many_variables(offset))
    }

    fn set(&mut self) -> Result<MetaAction, Fault> {
        let Some(name) = self.cursor.word() else {
            return Err(self.missing("missing argument", "\\set NAME EXPRESSION"));
        };
        if self.is_left(name) {
            self.expression()?;
            return Ok(MetaAction::InvalidName { name: name.text.to_owned(), is_shell: false });
        }
        let slot = self.target(name)?;
        Ok(MetaAction::Set(slot, self.expression()?))
    }

    fn missing(&self, message: &str, usage: &str) -> Fault {
        self.fault(self.name.end(), message).hint(format!("the form is {usage}"))
    }

    fn alone(&self, words: &[Word<'_>], action: MetaAction) -> Result<MetaAction, Fault> {
        match words.first() {
            None => Ok(action),
            Some(extra) => Err(self
                .fault(extra.offset, "unexpected argument")
                .hint(format!("\\{} takes no argument", self.name.text))),
        }
    }

    fn gset(&self, words: &[Word<'_>], all: bool) -> Result<Parsed, Fault> {
        if let Some(extra) = words.get(1) {
            return Err(self
                .fault(extra.offset, "too many arguments")
                .hint(format!("the form is \\{} [PREFIX]", self.name.text)));
        }
        let prefix = words.first().map_or(String::new(), |word| word.text.to_owned());
        Ok(Parsed::Gset { all, prefix })
    }

    fn sleep(&mut self, words: &[Word<'_>]) -> Result<MetaAction, Fault> {
        const USAGE: &str = "\\sleep NUMBER|:NAME [us|ms|s]";
        let (time, unit) = match *words {
            [] => return Err(self.missing("missing argument", USAGE)),
            [time] => split_unit(time),
            [time, unit] => (time, Some(unit)),
            [_, _, extra, ..] => {
                return Err(self
                    .fault(extra.offset, "too many arguments")
                    .hint(format!("the form is {USAGE}")));
            }
        };
        let variable = time.text.strip_prefix(':');
        if variable.is_none() && !is_whole_number(time.text) {
            let message = format!("invalid sleep time, must be an integer ({})", time.text);
            return Err(self.fault(time.offset, &message));
        }
        let unit_ns = match unit.map(|unit| unit.text.to_ascii_lowercase()).as_deref() {
            None | Some("s") => 1_000_000_000,
            Some("ms") => 1_000_000,
            Some("us") => 1_000,
            Some(other) => {
                let message = format!("unrecognized time unit, must be us, ms or s ({other})");
                let fault = self.fault(unit.map_or(time.end(), |unit| unit.offset), &message);
                return Err(if other.starts_with('.') {
                    fault.hint("a fraction is written in a smaller unit: 500 ms, not 0.5 s")
                } else {
                    fault
                });
            }
        };
        Ok(MetaAction::Sleep(match variable {
            Some(name) => SleepTime::Variable { slot: self.intern(name, time.offset)?, unit_ns },
            None => {
                let count = u64::try_from(leading_integer(time.text)).unwrap_or(0);
                SleepTime::Constant { duration_ns: count.saturating_mul(unit_ns) }
            }
        }))
    }

    fn shell(&mut self, words: &[Word<'_>]) -> Result<MetaAction, Fault> {
        if words.is_empty() {
            return Err(self.missing("missing command", "\\shell COMMAND [ARGUMENT ...]"));
        }
        Ok(MetaAction::Shell(self.shell_command(words, None)?))
    }

    fn setshell(&mut self, words: &[Word<'_>]) -> Result<MetaAction, Fault> {
        let [name, words @ ..] = words else {
            return Err(self.missing_setshell());
        };
        if words.is_empty() {
            return Err(self.missing_setshell());
        }
        if self.is_left(*name) {
            return Ok(MetaAction::InvalidName { name: name.text.to_owned(), is_shell: true });
        }
        let slot = self.target(*name)?;
        Ok(MetaAction::Shell(self.shell_command(words, Some(slot))?))
    }

    fn missing_setshell(&self) -> Fault {
        self.missing("missing argument", "\\setshell NAME COMMAND [ARGUMENT ...]")
    }

    fn shell_command(
        &mut self,
        words: &[Word<'_>],
        assigns: Option<VariableSlot>,
    ) -> Result<ShellCommand, Fault> {
        ShellCommand::new(words.iter().map(|word| word.text), assigns, self.variables)
            .ok_or_else(|| Fault::too_many_variables(self.name.offset))
    }

    /// Reads `\setrandom name min max [uniform | gaussian parameter | exponential parameter]`.
    ///
    /// Source: manual of PostgreSQL 9.5, pgbench.
    fn setrandom(&mut self, words: &[Word<'_>]) -> Result<MetaAction, Fault> {
        const USAGE: &str =
            "\\setrandom NAME MIN MAX [uniform | gaussian PARAMETER | exponential PARAMETER]";
        let [name, min, max, distribution @ ..] = words else {
            return Err(self.missing("missing argument", USAGE));
        };
        let slot = self.target(*name)?;
        let mut arguments = vec![self.argument(*min)?, self.argument(*max)?];
        let kind = distribution.first().map(|word| word.text.to_ascii_lowercase());
        let function = match (kind.as_deref(), distribution) {
            (None, _) | (Some("uniform"), [_]) => Function::Random,
            (Some("gaussian"), [_, parameter]) => {
                arguments.push(self.argument(*parameter)?);
                Function::RandomGaussian
            }
            (Some("exponential"), [_, parameter]) => {
                arguments.push(self.argument(*parameter)?);
                Function::RandomExponential
            }
            _ => {
                return Err(self
                    .fault(distribution[0].offset, "unrecognized distribution")
                    .hint(format!("the form is {USAGE}")));
            }
        };
        Ok(MetaAction::Set(slot, Expression::call(function, arguments)))
    }

    /// Reads a number or a variable of `\setrandom`.
    fn argument(&mut self, word: Word<'_>) -> Result<Argument, Fault> {
        if let Some(name) = word.text.strip_prefix(':') {
            return Ok(Argument::Variable(self.intern(name, word.offset)?));
        }
        let number =
            word.text.parse().map(Value::Int).or_else(|_| word.text.parse().map(Value::Double));
        number.map(Argument::Constant).map_err(|_| {
            self.fault(word.offset, &format!("invalid number ({})", word.text))
                .hint("a bound is a number or a variable, as :name")
        })
    }
}

/// Cuts `10ms` into number and unit; a word of any other make is returned whole.
fn split_unit(time: Word<'_>) -> (Word<'_>, Option<Word<'_>>) {
    let signless = time.text.trim_start_matches(['+', '-']);
    let sign_len = time.text.len() - signless.len();
    let digits = signless.bytes().take_while(u8::is_ascii_digit).count();
    if sign_len > 1 || digits == 0 || digits == signless.len() {
        return (time, None);
    }
    let (number, unit) = time.text.split_at(sign_len + digits);
    let unit = Word { text: unit, offset: time.offset + number.len() };
    (Word { text: number, offset: time.offset }, Some(unit))
}

fn is_whole_number(text: &str) -> bool {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}
