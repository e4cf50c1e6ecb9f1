//! Where an error stands in a text, shown as libpq shows it: the line and a caret below.

/// Screen columns of a line that are shown; a longer one is cut.
const SHOWN: usize = 60;
/// Columns kept to the right of the place.
const KEPT_RIGHT: usize = 10;

/// `LINE n: ...` and a line with a caret below the character at `position`, counted from 1.
///
/// Source: `reportErrorPosition` of libpq. Limits: every character is taken for one column wide.
pub fn caret(sql: &str, position: usize) -> String {
    let characters: Vec<char> = sql.chars().collect();
    let at = position.saturating_sub(1).min(characters.len());
    let is_break = |c: &char| matches!(c, '\n' | '\r');
    let mut begin = characters[..at].iter().rposition(is_break).map_or(0, |index| index + 1);
    let mut end =
        characters[at..].iter().position(is_break).map_or(characters.len(), |index| at + index);
    let number = line_number(sql, position);
    let (mut cuts_left, mut cuts_right) = (false, false);
    if end - begin > SHOWN {
        let shown_to = match begin + SHOWN >= at + KEPT_RIGHT {
            true => begin + SHOWN,
            false => end.min(at + KEPT_RIGHT),
        };
        cuts_right = shown_to < end;
        end = shown_to;
        if end - begin > SHOWN {
            begin = end - SHOWN;
            cuts_left = true;
        }
    }
    let dots = |is_cut: bool| if is_cut { "..." } else { "" };
    let head = format!("LINE {number}: {}", dots(cuts_left));
    let shown: String =
        characters[begin..end].iter().map(|&c| if c == '\t' { ' ' } else { c }).collect();
    let blank = " ".repeat(head.len() + at - begin);
    format!("{head}{shown}{}\n{blank}^", dots(cuts_right))
}

/// The line of the character at `position`, both counted from 1.
pub fn line_number(sql: &str, position: usize) -> usize {
    let before: String = sql.chars().take(position.saturating_sub(1)).collect();
    before.replace("\r\n", "\n").matches(['\n', '\r']).count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_an_error_is_shown_below_its_line() {
        assert_eq!(caret("select 1,\n  nope", 13), "LINE 2:   nope\n          ^");
        assert_eq!(caret("select\tx", 8), "LINE 1: select x\n               ^");
        assert_eq!(caret("é nope", 3), "LINE 1: é nope\n          ^");
        assert_eq!(caret("", 1), "LINE 1: \n        ^");
    }

    #[test]
    fn a_long_line_is_cut_around_the_place_as_libpq_cuts_it() {
        let long = format!("select {}nope{}", "a, ".repeat(40), ", b".repeat(40));
        let at = 7 + 120 + 1;
        let shown = caret(&long, at);
        let (line, mark) = shown.split_once('\n').expect("two lines");
        assert!(line.starts_with("LINE 1: ...") && line.ends_with("..."), "{line}");
        assert_eq!(line.find("nope"), mark.find('^'));
        assert_eq!(line.len(), "LINE 1: ...".len() + SHOWN + 3);
        let right_only = caret(&long, 8);
        assert!(right_only.starts_with("LINE 1: select a, "), "{right_only}");
    }
}
