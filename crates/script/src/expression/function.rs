//! The functions and operators of expressions: names and numbers of arguments.

/// A function or operator whose arguments are all evaluated first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    BitAnd,
    BitOr,
    BitXor,
    ShiftLeft,
    ShiftRight,
    Not,
    /// `IS NULL`, `IS TRUE`, `IS FALSE`.
    Is,
    Abs,
    Debug,
    Double,
    Exp,
    Greatest,
    HashFnv1a,
    HashMurmur2,
    Int,
    Least,
    Ln,
    Permute,
    Pi,
    Power,
    Random,
    RandomExponential,
    RandomGaussian,
    RandomZipfian,
    Sqrt,
}

/// How many arguments a function takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arity {
    /// Exactly this number.
    Exactly(usize),
    /// One or more.
    AtLeastOne,
    /// This number, and a last one which is `:default_seed` when left out.
    WithSeed(usize),
}

/// Most arguments a function may have.
pub(crate) const ARGUMENTS_MAX: usize = 16;

/// What pgbench says of a call with more of them.
pub(crate) fn too_many_arguments() -> String {
    format!("too many function arguments, maximum is {ARGUMENTS_MAX}")
}

/// Every function a script may call by name.
pub(crate) const FUNCTIONS: &[(&str, Function, Arity)] = &[
    ("abs", Function::Abs, Arity::Exactly(1)),
    ("debug", Function::Debug, Arity::Exactly(1)),
    ("double", Function::Double, Arity::Exactly(1)),
    ("exp", Function::Exp, Arity::Exactly(1)),
    ("greatest", Function::Greatest, Arity::AtLeastOne),
    ("hash", Function::HashMurmur2, Arity::WithSeed(1)),
    ("hash_fnv1a", Function::HashFnv1a, Arity::WithSeed(1)),
    ("hash_murmur2", Function::HashMurmur2, Arity::WithSeed(1)),
    ("int", Function::Int, Arity::Exactly(1)),
    ("least", Function::Least, Arity::AtLeastOne),
    ("ln", Function::Ln, Arity::Exactly(1)),
    ("mod", Function::Modulo, Arity::Exactly(2)),
    ("permute", Function::Permute, Arity::WithSeed(2)),
    ("pi", Function::Pi, Arity::Exactly(0)),
    ("pow", Function::Power, Arity::Exactly(2)),
    ("power", Function::Power, Arity::Exactly(2)),
    ("random", Function::Random, Arity::Exactly(2)),
    ("random_exponential", Function::RandomExponential, Arity::Exactly(3)),
    ("random_gaussian", Function::RandomGaussian, Arity::Exactly(3)),
    ("random_zipfian", Function::RandomZipfian, Arity::Exactly(3)),
    ("sqrt", Function::Sqrt, Arity::Exactly(1)),
];

/// Returns the function called `name`, in any case of letters.
pub(crate) fn find_function(name: &str) -> Option<&'static (&'static str, Function, Arity)> {
    FUNCTIONS.iter().find(|(known, ..)| known.eq_ignore_ascii_case(name))
}

/// Returns the name nearest to `name` when it is near enough to be a slip of the keyboard.
pub(crate) fn nearest_name(
    name: &str,
    known: impl Iterator<Item = &'static str>,
) -> Option<&'static str> {
    let name = name.to_ascii_lowercase();
    known
        .map(|candidate| (edit_distance(&name, candidate), candidate))
        .filter(|&(distance, candidate)| distance <= 1 + candidate.len() / 4)
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| candidate)
}

/// Returns how many letters have to be changed, added or left out between two names.
fn edit_distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, byte_a) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, byte_b) in b.bytes().enumerate() {
            let replaced = diagonal + usize::from(byte_a != byte_b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

impl Function {
    /// Returns whether equal arguments always give an equal result and nothing else happens.
    pub(crate) fn is_pure(self) -> bool {
        !matches!(
            self,
            Function::Debug
                | Function::Random
                | Function::RandomExponential
                | Function::RandomGaussian
                | Function::RandomZipfian
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_keyboard_finds_its_function() {
        let names = || FUNCTIONS.iter().map(|(name, ..)| *name);
        assert_eq!(nearest_name("randm", names()), Some("random"));
        assert_eq!(nearest_name("RANDOM_GAUSIAN", names()), Some("random_gaussian"));
        assert_eq!(nearest_name("foobar", names()), None);
    }

    #[test]
    fn functions_are_found_in_any_case() {
        assert_eq!(find_function("Pi").unwrap().1, Function::Pi);
        assert!(find_function("pie").is_none());
    }
}
