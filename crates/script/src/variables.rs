//! Script variables: names become slots when scripts are read, and values live in arrays.

use std::collections::HashMap;
use std::sync::Arc;

use crate::error::{EvalError, EvalErrorKind};
use crate::text_value::Conversion;
use crate::value::Value;

/// Number of a variable in its [`VariableTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VariableSlot(u16);

/// Every variable named by the scripts of one job. Complete before the first client starts.
#[derive(Clone, Debug, Default)]
pub struct VariableTable {
    names: Vec<Arc<str>>,
    slots: HashMap<Arc<str>, VariableSlot>,
}

impl VariableTable {
    /// Returns an empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the slot of `name`, a new one when the name is new; None when all are taken.
    ///
    /// A name that no variable may have gets a slot too: reading it is an error only when the
    /// script does so. Check [`is_valid_name`] before setting one.
    pub fn intern(&mut self, name: &str) -> Option<VariableSlot> {
        if let Some(&slot) = self.slots.get(name) {
            return Some(slot);
        }
        let slot = VariableSlot(u16::try_from(self.names.len()).ok()?);
        let name: Arc<str> = name.into();
        self.names.push(Arc::clone(&name));
        self.slots.insert(name, slot);
        Some(slot)
    }

    /// Returns the slot of `name` when a script, or the caller, has named it.
    pub fn find(&self, name: &str) -> Option<VariableSlot> {
        self.slots.get(name).copied()
    }

    /// Returns the name of the variable in `slot`.
    pub fn name(&self, slot: VariableSlot) -> &str {
        &self.names[usize::from(slot.0)]
    }

    /// Returns how many variables there are.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Returns whether no variable was named.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

/// Returns whether a variable may be called `name`: ASCII letters, digits and `_`, not a digit
/// first, and any other character outside ASCII.
pub fn is_valid_name(name: &str) -> bool {
    name.bytes().next().is_some_and(is_name_start) && name.bytes().all(is_name_byte)
}

/// Returns whether a variable's name may begin with `byte`.
pub(crate) fn is_name_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || !byte.is_ascii()
}

/// Returns whether `byte` may stand inside a variable's name.
pub(crate) fn is_name_byte(byte: u8) -> bool {
    is_name_start(byte) || byte.is_ascii_digit()
}

fn is_plain_number(value: &[u8]) -> bool {
    let is_part = |byte: &u8| byte.is_ascii_digit() || b".eE+-".contains(byte);
    value.iter().any(u8::is_ascii_digit)
        && value.iter().all(is_part)
        && !value.windows(2).any(|pair| pair == b"--")
}

/// The variables of one client.
#[derive(Debug)]
pub struct ClientVariables {
    slots: Box<[Slot]>,
    table: Arc<VariableTable>,
    debug_lines: Vec<DebugLine>,
}

impl Clone for ClientVariables {
    fn clone(&self) -> Self {
        let Self { slots, table, debug_lines } = self;
        Self { slots: slots.clone(), table: Arc::clone(table), debug_lines: debug_lines.clone() }
    }

    /// Uses the memory again: clients save their variables before every transaction.
    fn clone_from(&mut self, source: &Self) {
        self.slots.clone_from(&source.slots);
        self.table.clone_from(&source.table);
        self.debug_lines.clone_from(&source.debug_lines);
    }
}

#[derive(Clone, Debug, Default)]
enum Slot {
    #[default]
    Undefined,
    Value(Value),
    Text {
        bytes: Vec<u8>,
        conversion: Conversion,
    },
}

/// `\gset` or `\aset` behind an SQL command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gset {
    /// What goes before the name of a column to make the name of a variable.
    pub prefix: Box<str>,
    /// Whether it is `\aset`: the last row of every query, no row being no error. `\gset` takes
    /// the one row of the last query.
    pub all: bool,
}

/// What `debug(...)` of a script wants printed to standard error.
///
/// pgbench prints `debug(script=S,command=C): VALUE`, with C one more than `command`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DebugLine {
    /// Index of the command in its script.
    pub command: usize,
    /// Type and value, such as `int 5`; of null only the word.
    pub value: String,
}

impl ClientVariables {
    /// Returns the variables of a new client, all undefined.
    pub fn new(table: &Arc<VariableTable>) -> Self {
        let slots = vec![Slot::Undefined; table.len()].into_boxed_slice();
        Self { slots, table: Arc::clone(table), debug_lines: Vec::new() }
    }

    /// Returns the table that names the slots.
    pub fn table(&self) -> &VariableTable {
        &self.table
    }

    /// Sets a variable to a value.
    #[inline]
    pub fn set(&mut self, slot: VariableSlot, value: Value) {
        self.slots[usize::from(slot.0)] = Slot::Value(value);
    }

    /// Sets a variable to a text, which expressions convert and SQL takes as it is.
    pub fn set_text(&mut self, slot: VariableSlot, text: &[u8]) {
        let conversion = Conversion::of(text);
        match &mut self.slots[usize::from(slot.0)] {
            // The memory of the last text is used again, so that `\gset` seldom allocates.
            Slot::Text { bytes, conversion: old } => {
                bytes.clear();
                bytes.extend_from_slice(text);
                *old = conversion;
            }
            slot => *slot = Slot::Text { bytes: text.to_vec(), conversion },
        }
    }

    /// Sets the variable called `name` when a script reads it; otherwise does nothing.
    pub fn set_by_name(&mut self, name: &str, value: Value) {
        if let Some(slot) = self.table.find(name) {
            self.set(slot, value);
        }
    }

    /// Returns whether the variable has a value.
    pub fn is_defined(&self, slot: VariableSlot) -> bool {
        !matches!(self.slots[usize::from(slot.0)], Slot::Undefined)
    }

    /// Returns the value an expression sees.
    ///
    /// Errors: the variable is undefined, or its text is not a value.
    #[inline]
    pub fn get(&self, slot: VariableSlot) -> Result<Value, EvalError> {
        match &self.slots[usize::from(slot.0)] {
            Slot::Value(value) => Ok(*value),
            other => self.get_other(slot, other),
        }
    }

    #[cold]
    fn get_other(&self, slot: VariableSlot, stored: &Slot) -> Result<Value, EvalError> {
        let name = self.table.name(slot);
        match stored {
            Slot::Undefined => Err(undefined(name)),
            Slot::Value(value) => Ok(*value),
            Slot::Text { conversion: Conversion::Value(value), .. } => Ok(*value),
            Slot::Text { bytes, conversion } => conversion.value(name, bytes),
        }
    }

    /// Appends the text SQL sees; returns false, and appends nothing, when it is undefined.
    #[inline]
    pub fn append_text(&self, slot: VariableSlot, out: &mut Vec<u8>) -> bool {
        match &self.slots[usize::from(slot.0)] {
            Slot::Undefined => return false,
            Slot::Value(value) => value.append_to(out),
            Slot::Text { bytes, .. } => out.extend_from_slice(bytes),
        }
        true
    }

    /// Stores one row of a `\gset` or `\aset`: each column into the variable `prefix` + its name.
    ///
    /// Args: `columns` gives name and value of each column; a null is stored as the empty text,
    /// as pgbench stores it. Columns no script reads are only checked for their names.
    /// Errors: a column has a name that no variable may have.
    pub fn assign_row<'a>(
        &mut self,
        gset: &Gset,
        columns: impl IntoIterator<Item = (&'a str, Option<&'a [u8]>)>,
    ) -> Result<(), EvalError> {
        let mut prefixed = String::new();
        for (column, value) in columns {
            let name = if gset.prefix.is_empty() {
                column
            } else {
                prefixed.clear();
                prefixed.push_str(&gset.prefix);
                prefixed.push_str(column);
                &prefixed
            };
            if !is_valid_name(name) {
                let command = if gset.all { "aset" } else { "gset" };
                return Err(EvalError::new(
                    EvalErrorKind::InvalidVariableName,
                    format!("{command}: invalid variable name: \"{name}\""),
                ));
            }
            if let Some(slot) = self.table.find(name) {
                self.set_text(slot, value.unwrap_or_default());
            }
        }
        Ok(())
    }

    /// Checks that the values of a row are numbers, as a read-only load needs them to be when they
    /// are pasted into a statement: a number cannot add to the statement or end a string in it.
    pub fn require_numbers<'a>(
        gset: &Gset,
        columns: impl IntoIterator<Item = (&'a str, Option<&'a [u8]>)>,
    ) -> Result<(), EvalError> {
        for (column, value) in columns {
            if !value.is_some_and(is_plain_number) {
                let command = if gset.all { "aset" } else { "gset" };
                return Err(EvalError::new(
                    EvalErrorKind::NotANumber,
                    format!(
                        "{command}: the value of \"{column}\" is not a number. In the simple \
                         protocol it becomes part of the next statements, and could make them \
                         write. Use -M extended, or permit writing with --allow-write"
                    ),
                ));
            }
        }
        Ok(())
    }

    /// Whether `debug(...)` asked to print something since the last call of `take_debug_lines`.
    #[inline]
    pub fn has_debug_lines(&self) -> bool {
        !self.debug_lines.is_empty()
    }

    /// Takes what `debug(...)` asked to print since the last call.
    pub fn take_debug_lines(&mut self) -> Vec<DebugLine> {
        std::mem::take(&mut self.debug_lines)
    }

    pub(crate) fn push_debug_line(&mut self, line: DebugLine) {
        self.debug_lines.push(line);
    }
}

/// Returns the error for a variable that nothing has set.
pub(crate) fn undefined(name: &str) -> EvalError {
    EvalError::new(EvalErrorKind::UndefinedVariable, format!("undefined variable \"{name}\""))
}
