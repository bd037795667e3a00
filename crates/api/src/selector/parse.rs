//! The grammar of a label selector's text.

use std::collections::BTreeSet;

use super::labels::{Requirement, RequirementError, Test, check_key, check_value, invalid};

/// Why a text is no label selector; the texts are Kubernetes' own.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LabelSelectorError {
    /// Something else should stand there.
    #[error("found '{found}', expected: {expected}")]
    Unexpected {
        /// What stands there.
        found: String,
        /// What could stand there.
        expected: &'static str,
    },
    /// The same, inside of a requirement.
    #[error("unable to parse requirement: found '{found}', expected: {expected}")]
    InRequirement {
        /// What stands there.
        found: String,
        /// What could stand there.
        expected: &'static str,
    },
    /// The values of a set stand in parentheses.
    #[error("unable to parse requirement: found '{found}' expected: '('")]
    NoParenthesis {
        /// What stands there.
        found: String,
    },
    /// The requirement asks for what no label can have.
    #[error("unable to parse requirement: {0}")]
    Requirement(#[source] RequirementError),
}

const OPERATORS: &str = "in, notin, =, ==, !=, gt, lt";

/// The requirements of a text, in its order.
pub(super) fn requirements(text: &str) -> Result<Vec<Requirement>, LabelSelectorError> {
    let mut parser = Parser { tokens: tokens(text), position: 0 };
    let mut requirements = Vec::new();
    loop {
        match parser.peek() {
            Token::End => return Ok(requirements),
            Token::Word(_) | Token::Not => requirements.push(parser.requirement()?),
            other => return Err(unexpected(other, "!, identifier, or 'end of string'")),
        }
        match parser.next() {
            Token::End => return Ok(requirements),
            Token::Comma => match parser.peek() {
                Token::Word(_) | Token::Not => {}
                other => return Err(unexpected(other, "identifier after ','")),
            },
            other => return Err(unexpected(&other, "',' or 'end of string'")),
        }
    }
}

fn unexpected(found: &Token, expected: &'static str) -> LabelSelectorError {
    LabelSelectorError::Unexpected { found: found.text().to_owned(), expected }
}

fn in_requirement(found: &Token, expected: &'static str) -> LabelSelectorError {
    LabelSelectorError::InRequirement { found: found.text().to_owned(), expected }
}

/// A piece of the text. `in` and `notin` are words: only behind a key they are operators.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Not,
    Equal,
    DoubleEqual,
    NotEqual,
    Greater,
    Less,
    Comma,
    Open,
    Close,
    End,
}

impl Token {
    fn text(&self) -> &str {
        match self {
            Token::Word(text) => text,
            Token::Not => "!",
            Token::Equal => "=",
            Token::DoubleEqual => "==",
            Token::NotEqual => "!=",
            Token::Greater => ">",
            Token::Less => "<",
            Token::Comma => ",",
            Token::Open => "(",
            Token::Close => ")",
            Token::End => "",
        }
    }
}

fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\r' | '\n')
}

fn is_sign(character: char) -> bool {
    matches!(character, '=' | '!' | '(' | ')' | ',' | '>' | '<')
}

fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start_matches(is_space);
    // A zero byte ends the text, as in Kubernetes' lexer.
    while !rest.is_empty() && !rest.starts_with('\0') {
        let (token, length) = token(rest);
        tokens.push(token);
        rest = rest.get(length..).unwrap_or_default().trim_start_matches(is_space);
    }
    tokens.push(Token::End);
    tokens
}

/// The token at the beginning of a text, and its length in bytes.
fn token(rest: &str) -> (Token, usize) {
    const SIGNS: [(&str, Token); 9] = [
        ("==", Token::DoubleEqual),
        ("!=", Token::NotEqual),
        ("=", Token::Equal),
        ("!", Token::Not),
        (">", Token::Greater),
        ("<", Token::Less),
        (",", Token::Comma),
        ("(", Token::Open),
        (")", Token::Close),
    ];
    if let Some((sign, token)) = SIGNS.into_iter().find(|(sign, _)| rest.starts_with(sign)) {
        return (token, sign.len());
    }
    let end = rest.find(|c: char| is_sign(c) || is_space(c) || c == '\0').unwrap_or(rest.len());
    (Token::Word(rest.get(..end).unwrap_or_default().to_owned()), end)
}

struct Parser {
    tokens: Vec<Token>,
    position: usize,
}

impl Parser {
    fn peek(&self) -> &Token {
        self.tokens.get(self.position).unwrap_or(&Token::End)
    }

    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        self.position += 1;
        token
    }

    fn requirement(&mut self) -> Result<Requirement, LabelSelectorError> {
        let negated = *self.peek() == Token::Not;
        if negated {
            self.next();
        }
        let key = match self.next() {
            Token::Word(key) => key,
            other => return Err(in_requirement(&other, "identifier")),
        };
        // Without a field's path Kubernetes says `<nil>`.
        check_key(&key, "<nil>").map_err(LabelSelectorError::Requirement)?;
        let test = match (negated, self.peek()) {
            (true, _) => Test::DoesNotExist,
            (false, Token::End | Token::Comma) => Test::Exists,
            (false, _) => self.test(&key)?,
        };
        Requirement::new(&key, test).map_err(LabelSelectorError::Requirement)
    }

    fn test(&mut self, key: &str) -> Result<Test, LabelSelectorError> {
        Ok(match self.next() {
            Token::Word(word) if word == "in" => Test::In(self.values()?),
            Token::Word(word) if word == "notin" => Test::NotIn(self.values()?),
            Token::Equal | Token::DoubleEqual => Test::Equal(self.value()?),
            Token::NotEqual => Test::NotEqual(self.value()?),
            Token::Greater => Test::GreaterThan(self.number(key)?),
            Token::Less => Test::LessThan(self.number(key)?),
            other => return Err(in_requirement(&other, OPERATORS)),
        })
    }

    fn value(&mut self) -> Result<String, LabelSelectorError> {
        match self.peek() {
            Token::End | Token::Comma => Ok(String::new()),
            Token::Word(_) => Ok(self.next().text().to_owned()),
            other => Err(in_requirement(other, "identifier")),
        }
    }

    fn number(&mut self, key: &str) -> Result<i64, LabelSelectorError> {
        let value = self.value()?;
        let number = value.parse().map_err(|_| {
            let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
            LabelSelectorError::Requirement(invalid("values[0]", format!("{value:?}"), detail))
        })?;
        // Thereby negative numbers are refused: no label's value begins with a dash.
        check_value(key, &value, 0).map_err(LabelSelectorError::Requirement)?;
        Ok(number)
    }

    /// `(a,b)`; the empty text between two commas is a value too.
    fn values(&mut self) -> Result<BTreeSet<String>, LabelSelectorError> {
        match self.next() {
            Token::Open => {}
            other => return Err(LabelSelectorError::NoParenthesis { found: other.text().to_owned() }),
        }
        let mut values = BTreeSet::new();
        loop {
            values.insert(match self.peek() {
                Token::Word(_) => self.next().text().to_owned(),
                Token::Comma | Token::Close => String::new(),
                other if values.is_empty() => return Err(in_requirement(other, "',', ')' or identifier")),
                other => return Err(in_requirement(other, "',', or identifier")),
            });
            match self.next() {
                Token::Comma => {}
                Token::Close => return Ok(values),
                other => return Err(in_requirement(&other, "',' or ')'")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::LabelSelector;

    fn canonical(text: &str) -> String {
        LabelSelector::parse(text).map_or_else(|error| error.to_string(), |selector| selector.to_string())
    }

    #[test]
    fn a_90_selectors_are_read_and_written_back_sorted_by_key() {
        let rows = [
            ("", ""),
            ("  ", ""),
            ("x in (foo,,baz),y,z notin ()", "x in (,baz,foo),y,z notin ()"),
            ("b=1,a==2", "a=2,b=1"),
            ("in in (in,notin)", "in in (in,notin)"),
            ("a = b , c", "a=b,c"),
            ("a=", "a="),
            ("a!=,b", "a!=,b"),
            ("a>1,b<2", "a>1,b<2"),
            ("! a", "!a"),
            ("a in (b,)", "a in (,b)"),
        ];
        for (text, wanted) in rows {
            assert_eq!(canonical(text), wanted, "{text}");
        }
    }

    #[test]
    fn a_90_malformed_selectors_are_refused_in_kubernetes_words() {
        let name = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
        let rows = [
            ("=a", "found '=', expected: !, identifier, or 'end of string'".to_owned()),
            ("a,", "found '', expected: identifier after ','".to_owned()),
            ("a=b=c", "found '=', expected: ',' or 'end of string'".to_owned()),
            ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt".to_owned()),
            ("a in b", "unable to parse requirement: found 'b' expected: '('".to_owned()),
            ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'".to_owned()),
            ("a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier".to_owned()),
            ("a in (b,", "unable to parse requirement: found '', expected: ',', or identifier".to_owned()),
            ("!a=b", "found '=', expected: ',' or 'end of string'".to_owned()),
            ("!", "unable to parse requirement: found '', expected: identifier".to_owned()),
            ("a=!b", "unable to parse requirement: found '!', expected: identifier".to_owned()),
            ("_a", format!("unable to parse requirement: <nil>: Invalid value: \"_a\": {name}")),
            (
                "a>b",
                "unable to parse requirement: values[0]: Invalid value: \"b\": for 'Gt', 'Lt' operators, the value must be an integer"
                    .to_owned(),
            ),
        ];
        for (text, wanted) in rows {
            assert_eq!(canonical(text), wanted, "{text}");
        }
    }

    proptest! {
        #[test]
        fn parsing_never_panics(text in ".{0,60}") {
            drop(LabelSelector::parse(&text));
        }

        #[test]
        fn what_is_written_is_read_back(text in "[ab](=|!=|>|<| in \\(| notin \\(|,|!|\\)|[ab1]| ){0,8}") {
            if let Ok(selector) = LabelSelector::parse(&text) {
                prop_assert_eq!(LabelSelector::parse(&selector.to_string()), Ok(selector));
            }
        }
    }
}
