//! What can be decoded: JSON values, and the nodes of manifests.

use serde_json::{Number, Value};

/// A value that may hold others.
pub(crate) trait Tree: Sized {
    /// The members of a map in their order.
    type Members<'t>: Iterator<Item = (&'t str, &'t Self)>
    where
        Self: 't;

    /// What the value is.
    fn view(&self) -> View<'_, Self>;
}

/// What a value is.
pub(crate) enum View<'t, T: Tree> {
    Null,
    Bool(bool),
    Number(&'t Number),
    Text(&'t str),
    List(&'t [T]),
    Map(T::Members<'t>),
}

impl<'t, T: Tree> View<'t, T> {
    /// What it is, for people.
    pub(crate) fn describe(&self) -> &'static str {
        match self {
            View::Null => "nothing",
            View::Bool(_) => "a boolean",
            View::Number(_) => "a number",
            View::Text(_) => "a string",
            View::List(_) => "a list",
            View::Map(_) => "an object",
        }
    }
}

/// The members of a JSON object.
type JsonMembers<'t> = std::iter::Map<serde_json::map::Iter<'t>, fn((&'t String, &'t Value)) -> (&'t str, &'t Value)>;

fn json_member<'t>((name, value): (&'t String, &'t Value)) -> (&'t str, &'t Value) {
    (name, value)
}

impl Tree for Value {
    type Members<'t> = JsonMembers<'t>;

    fn view(&self) -> View<'_, Value> {
        match self {
            Value::Null => View::Null,
            Value::Bool(value) => View::Bool(*value),
            Value::Number(number) => View::Number(number),
            Value::String(text) => View::Text(text),
            Value::Array(list) => View::List(list),
            Value::Object(members) => View::Map(members.iter().map(json_member as fn(_) -> _)),
        }
    }
}
