//! Evaluation of expressions: pgbench's rules for types, nulls, overflow and laziness.

use super::function::{ARGUMENTS_MAX, Function, too_many_arguments};
use super::{Case, Evaluation, Node};
use crate::error::{EvalError, EvalErrorKind};
use crate::hash::{hash_fnv1a, hash_murmur2, permute};
use crate::prng::{GAUSSIAN_PARAMETER_MIN, Prng, ZIPFIAN_PARAMETER_MAX, ZIPFIAN_PARAMETER_MIN};
use crate::value::{Value, fixed};

type Evaluated = Result<Value, EvalError>;

impl Node {
    /// Returns the call of a function that evaluates all its arguments, as a constant when they
    /// are constants and nothing can go wrong.
    pub(super) fn strict(function: Function, arguments: Vec<Node>) -> Node {
        let constants: Option<Vec<Value>> = arguments
            .iter()
            .map(|node| match node {
                Node::Constant(value) => Some(*value),
                _ => None,
            })
            .collect();
        let is_foldable = function.is_pure() && arguments.len() <= ARGUMENTS_MAX;
        if let Some(values) = constants.filter(|_| is_foldable) {
            // A fault, such as a division by zero, is kept for the moment it is reached.
            if let Ok(value) = strict(function, &values) {
                return Node::Constant(value);
            }
        }
        match <[Node; 2]>::try_from(arguments) {
            Ok(both) => Node::Binary(function, Box::new(both)),
            Err(arguments) => Node::Call(function, arguments.into()),
        }
    }
}

impl Evaluation<'_> {
    #[inline]
    pub(super) fn value(&mut self, node: &Node) -> Evaluated {
        match node {
            Node::Constant(value) => Ok(*value),
            Node::Variable(slot) => self.variables.get(*slot),
            Node::Binary(function, both) => {
                let [left, right] = &**both;
                let left = self.value(left)?;
                let right = self.value(right)?;
                if *function == Function::Random && left != Value::Null && right != Value::Null {
                    let (min, max) = random_range(left, right)?;
                    return Ok(Value::Int(self.prng.uniform(min, max)));
                }
                strict_binary(*function, left, right)
            }
            Node::Call(function, arguments) => self.call(*function, arguments),
            Node::And(both) => self.and_or(both, false),
            Node::Or(both) => self.and_or(both, true),
            Node::Case(case) => self.case(case),
        }
    }

    fn call(&mut self, function: Function, arguments: &[Node]) -> Evaluated {
        let mut values = [Value::Null; ARGUMENTS_MAX];
        for (value, argument) in values.iter_mut().zip(arguments) {
            *value = self.value(argument)?;
        }
        if arguments.len() > ARGUMENTS_MAX {
            return Err(EvalError::new(EvalErrorKind::InvalidArgument, too_many_arguments()));
        }
        let values = &values[..arguments.len()];
        match (function, values) {
            (Function::Debug, &[value]) => {
                self.debug(value);
                Ok(value)
            }
            (_, &[min, max, parameter])
                if !function.is_pure() && !values.contains(&Value::Null) =>
            {
                draw(self.prng, function, random_range(min, max)?, parameter.to_double()?)
            }
            _ => strict(function, values),
        }
    }

    /// Evaluates AND (decided by false) or OR (decided by true); null on the left decides both.
    fn and_or(&mut self, both: &[Node; 2], decisive: bool) -> Evaluated {
        for node in both {
            match self.value(node)? {
                Value::Null => return Ok(Value::Null),
                value if value.to_bool()? == decisive => return Ok(Value::Bool(decisive)),
                _ => {}
            }
        }
        Ok(Value::Bool(!decisive))
    }

    fn case(&mut self, case: &Case) -> Evaluated {
        for (condition, result) in &case.branches {
            if self.value(condition)?.is_true() {
                return self.value(result);
            }
        }
        self.value(&case.otherwise)
    }
}

/// Evaluates a function that neither draws nor prints.
fn strict(function: Function, values: &[Value]) -> Evaluated {
    if let &[left, right] = values {
        return strict_binary(function, left, right);
    }
    if values.contains(&Value::Null) {
        return Ok(Value::Null);
    }
    match (function, values) {
        (Function::Pi, []) => Ok(Value::Double(std::f64::consts::PI)),
        (Function::Least | Function::Greatest, values) => extreme(function, values),
        (Function::Permute, &[value, size, seed]) => {
            let (value, size, seed) = (value.to_int()?, size.to_int()?, seed.to_int()?);
            if size <= 0 {
                return Err(EvalError::new(
                    EvalErrorKind::InvalidArgument,
                    "permute size parameter must be greater than zero",
                ));
            }
            Ok(Value::Int(permute(value, size, seed)))
        }
        (_, &[value]) => unary(function, value),
        _ => unreachable!("{function:?} was parsed with {} arguments", values.len()),
    }
}

fn unary(function: Function, value: Value) -> Evaluated {
    Ok(match function {
        Function::Not => Value::Bool(!value.to_bool()?),
        Function::Int => Value::Int(value.to_int()?),
        Function::Double => Value::Double(value.to_double()?),
        Function::Sqrt => Value::Double(value.to_double()?.sqrt()),
        Function::Ln => Value::Double(value.to_double()?.ln()),
        Function::Exp => Value::Double(value.to_double()?.exp()),
        Function::Abs => match value {
            Value::Int(value) => Value::Int(value.wrapping_abs()),
            _ => {
                let double = value.to_double()?;
                Value::Double(if double < 0.0 { -double } else { double })
            }
        },
        _ => unreachable!("{function:?} does not take one argument"),
    })
}

#[inline]
fn strict_binary(function: Function, left: Value, right: Value) -> Evaluated {
    if function == Function::Is {
        return Ok(Value::Bool(left == right));
    }
    match (left, right) {
        (Value::Int(left), Value::Int(right)) => integers(function, left, right),
        (Value::Null, _) | (_, Value::Null) => Ok(Value::Null),
        _ => mixed(function, left, right),
    }
}

#[inline]
fn integers(function: Function, left: i64, right: i64) -> Evaluated {
    let result = match function {
        Function::Add => left.checked_add(right).ok_or("bigint add out of range"),
        Function::Subtract => left.checked_sub(right).ok_or("bigint sub out of range"),
        Function::Multiply => left.checked_mul(right).ok_or("bigint mul out of range"),
        Function::Divide | Function::Modulo if right == 0 => {
            return Err(EvalError::new(EvalErrorKind::DivisionByZero, "division by zero"));
        }
        Function::Divide => left.checked_div(right).ok_or("bigint div out of range"),
        Function::Modulo => Ok(left.wrapping_rem(right)),
        Function::BitAnd => Ok(left & right),
        Function::BitOr => Ok(left | right),
        Function::BitXor => Ok(left ^ right),
        // Only the lowest six bits of the distance count, as on the processors pgbench runs on.
        Function::ShiftLeft => Ok(left.wrapping_shl(right as u32)),
        Function::ShiftRight => Ok(left.wrapping_shr(right as u32)),
        Function::Equal => return Ok(Value::Bool(left == right)),
        Function::NotEqual => return Ok(Value::Bool(left != right)),
        Function::Less => return Ok(Value::Bool(left < right)),
        Function::LessOrEqual => return Ok(Value::Bool(left <= right)),
        Function::HashMurmur2 => Ok(hash_murmur2(left, right)),
        Function::HashFnv1a => Ok(hash_fnv1a(left, right)),
        Function::Power => return Ok(Value::Double((left as f64).powf(right as f64))),
        Function::Least => Ok(left.min(right)),
        Function::Greatest => Ok(left.max(right)),
        _ => unreachable!("{function:?} does not take two arguments"),
    };
    result.map(Value::Int).map_err(|message| EvalError::new(EvalErrorKind::OutOfRange, message))
}

/// Evaluates a function of two values that are not null and not both integers.
fn mixed(function: Function, left: Value, right: Value) -> Evaluated {
    match function {
        Function::Least | Function::Greatest => return extreme(function, &[left, right]),
        Function::Power => {
            return Ok(Value::Double(left.to_double()?.powf(right.to_double()?)));
        }
        _ => {}
    }
    let is_double = |value| matches!(value, Value::Double(_));
    if (is_double(left) || is_double(right))
        && let Some(operation) = on_doubles(function)
    {
        return Ok(operation(left.to_double()?, right.to_double()?));
    }
    integers(function, left.to_int()?, right.to_int()?)
}

/// Returns the operation on doubles; None for those that always take integers.
fn on_doubles(function: Function) -> Option<fn(f64, f64) -> Value> {
    Some(match function {
        Function::Add => |left, right| Value::Double(left + right),
        Function::Subtract => |left, right| Value::Double(left - right),
        Function::Multiply => |left, right| Value::Double(left * right),
        Function::Divide => |left, right| Value::Double(left / right),
        Function::Equal => |left, right| Value::Bool(left == right),
        Function::NotEqual => |left, right| Value::Bool(left != right),
        Function::Less => |left, right| Value::Bool(left < right),
        Function::LessOrEqual => |left, right| Value::Bool(left <= right),
        _ => return None,
    })
}

/// Returns the smallest or largest value: a double as soon as one of them is.
fn extreme(function: Function, values: &[Value]) -> Evaluated {
    let is_least = function == Function::Least;
    if values.iter().any(|value| matches!(value, Value::Double(_))) {
        let mut extreme = values[0].to_double()?;
        for value in &values[1..] {
            let value = value.to_double()?;
            // Subtle: a comparison with NaN is false, which lets the later value win.
            let keeps = if is_least { extreme < value } else { extreme > value };
            extreme = if keeps { extreme } else { value };
        }
        return Ok(Value::Double(extreme));
    }
    let mut extreme = values[0].to_int()?;
    for value in &values[1..] {
        let value = value.to_int()?;
        extreme = if is_least { extreme.min(value) } else { extreme.max(value) };
    }
    Ok(Value::Int(extreme))
}

/// Returns the bounds of a random function, whose distance plus one fits.
#[inline]
fn random_range(min: Value, max: Value) -> Result<(i64, i64), EvalError> {
    let (min, max) = (min.to_int()?, max.to_int()?);
    if min <= max && max.checked_sub(min).and_then(|distance| distance.checked_add(1)).is_some() {
        return Ok((min, max));
    }
    let message =
        if min > max { "empty range given to random" } else { "random range is too large" };
    Err(EvalError::new(EvalErrorKind::InvalidArgument, message))
}

fn draw(prng: &mut Prng, function: Function, (min, max): (i64, i64), parameter: f64) -> Evaluated {
    let message = match function {
        Function::RandomGaussian if parameter < GAUSSIAN_PARAMETER_MIN => format!(
            "gaussian parameter must be at least {} (not {})",
            fixed(GAUSSIAN_PARAMETER_MIN, 6),
            fixed(parameter, 6)
        ),
        Function::RandomGaussian => return Ok(Value::Int(prng.gaussian(min, max, parameter))),
        Function::RandomExponential if parameter <= 0.0 => {
            format!("exponential parameter must be greater than zero (not {})", fixed(parameter, 6))
        }
        Function::RandomExponential => {
            return Ok(Value::Int(prng.exponential(min, max, parameter)));
        }
        Function::RandomZipfian
            if !(ZIPFIAN_PARAMETER_MIN..=ZIPFIAN_PARAMETER_MAX).contains(&parameter) =>
        {
            format!(
                "zipfian parameter must be in range [{}, {}] (not {})",
                fixed(ZIPFIAN_PARAMETER_MIN, 3),
                fixed(ZIPFIAN_PARAMETER_MAX, 0),
                fixed(parameter, 6)
            )
        }
        Function::RandomZipfian => return Ok(Value::Int(prng.zipfian(min, max, parameter))),
        _ => unreachable!("{function:?} draws nothing"),
    };
    Err(EvalError::new(EvalErrorKind::InvalidArgument, message))
}
