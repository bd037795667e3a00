//! The deserializer: a place in a tree.
//!
//! The types' own `Deserialize` names their fields, so unknown ones are noticed where an object is entered.
//! A value of the wrong type is noted and read as nothing, so that one pass finds them all.

use std::cell::RefCell;
use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Number;

use super::{Tree, UnfitField, View, hints};
use crate::field::FieldPath;
use crate::quantity;

/// Where a value is, as a chain up to the root: paths are made of it only when something is wrong.
#[derive(Clone, Copy)]
struct Place<'p> {
    parent: Option<&'p Place<'p>>,
    step: Step<'p>,
    /// The fields of the type that is decoded here, if it is an object with fields.
    fields: &'static [&'static str],
}

#[derive(Clone, Copy)]
enum Step<'p> {
    Root,
    Field(&'p str),
    Key(&'p str),
    Index(usize),
}

impl Place<'_> {
    fn path(&self) -> FieldPath {
        let outer = self.parent.map(Place::path).unwrap_or_default();
        match self.step {
            Step::Root => outer,
            Step::Field(name) => outer.child(name),
            Step::Key(key) => outer.key(key),
            Step::Index(index) => outer.index(index),
        }
    }

    /// The nearest object around this one that has such a field.
    fn outer_with(&self, name: &str) -> Option<String> {
        let parent = self.parent?;
        if parent.fields.contains(&name) { Some(parent.path().to_string()) } else { parent.outer_with(name) }
    }
}

/// An error with its place; visitors make it without one, and the nearest cursor adds it.
#[derive(Debug)]
pub(super) struct Fault(Box<(Option<FieldPath>, String)>);

impl Fault {
    pub(super) fn into_unfit(self) -> UnfitField {
        let (path, message) = *self.0;
        UnfitField { path: path.unwrap_or_default(), message, hint: None, is_unknown: false }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.1)
    }
}

impl std::error::Error for Fault {}

impl de::Error for Fault {
    fn custom<T: fmt::Display>(message: T) -> Fault {
        Fault(Box::new((None, message.to_string())))
    }
}

/// A place in a tree.
pub(super) struct Cursor<'t, 'p, T: Tree> {
    tree: &'t T,
    place: Place<'p>,
    unfit: &'p RefCell<Vec<UnfitField>>,
}

impl<'t, 'p, T: Tree> Cursor<'t, 'p, T> {
    pub(super) fn root(tree: &'t T, unfit: &'p RefCell<Vec<UnfitField>>) -> Cursor<'t, 'p, T> {
        Cursor { tree, place: Place { parent: None, step: Step::Root, fields: &[] }, unfit }
    }

    fn note(&self, message: String, hint: Option<String>) {
        self.unfit.borrow_mut().push(UnfitField { path: self.place.path(), message, hint, is_unknown: false });
    }

    fn note_wrong_type(&self, expected: &str) {
        let found = self.tree.view().describe();
        self.note(format!("expected {expected}, found {found}"), hints::wrong_type(expected, found));
    }

    /// Notes the fields that the type does not have.
    fn note_unknown(&self, place: &Place<'_>, members: T::Members<'t>) {
        for (name, _) in members.filter(|(name, _)| !place.fields.contains(name)) {
            let hint = hints::unknown_field(name, place.fields, place.outer_with(name));
            let message = format!("unknown field `{}`", place.path().child(name));
            let path = place.path().child(name);
            self.unfit.borrow_mut().push(UnfitField { path, message, hint, is_unknown: true });
        }
    }

    /// Adds the place to an error that has none yet.
    fn placed<V>(&self, result: Result<V, Fault>) -> Result<V, Fault> {
        result.map_err(|mut fault| {
            fault.0.0.get_or_insert_with(|| self.place.path());
            fault
        })
    }

    fn visit_any<V: Visitor<'t>>(&self, visitor: V) -> Result<V::Value, Fault> {
        let visited = match self.tree.view() {
            View::Null => visitor.visit_unit(),
            View::Bool(value) => visitor.visit_bool(value),
            View::Text(text) => visitor.visit_str(text),
            View::Number(number) => visit_number(number, visitor),
            View::List(list) => self.visit_list(list, visitor),
            View::Map(members) => self.visit_members(Some(members), &[], visitor),
        };
        self.placed(visited)
    }

    fn visit_list<V: Visitor<'t>>(&self, list: &'t [T], visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_seq(Elements { rest: list.iter().enumerate(), place: &self.place, unfit: self.unfit })
    }

    /// Visits a map, or an object with fields.
    fn visit_members<V: Visitor<'t>>(
        &self,
        members: Option<T::Members<'t>>,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let place = Place { fields, ..self.place };
        visitor.visit_map(Members::<'t, '_, T> { rest: members, value: None, place: &place, unfit: self.unfit })
    }

    /// Visits a whole number; one that is none, or that does not fit, is noted and read as zero.
    fn visit_whole<V: Visitor<'t>>(&self, low: i64, high: u64, visitor: V) -> Result<V::Value, Fault> {
        let number = match self.tree.view() {
            View::Number(number) => number,
            View::Null => return visitor.visit_i64(0),
            _ => {
                self.note_wrong_type("a number");
                return visitor.visit_i64(0);
            }
        };
        let visited = match (number.as_i64(), number.as_u64()) {
            (Some(value), _) if value >= low && u64::try_from(value).map_or(true, |value| value <= high) => {
                visitor.visit_i64(value)
            }
            (_, Some(value)) if value <= high => visitor.visit_u64(value),
            (None, None) => {
                self.note(format!("expected a whole number, found {number}"), None);
                visitor.visit_i64(0)
            }
            _ => {
                self.note(format!("{number} is out of range: it must be between {low} and {high}"), None);
                visitor.visit_i64(0)
            }
        };
        self.placed(visited)
    }
}

fn visit_number<'t, V: Visitor<'t>>(number: &Number, visitor: V) -> Result<V::Value, Fault> {
    match (number.as_i64(), number.as_u64()) {
        (Some(value), _) => visitor.visit_i64(value),
        (None, Some(value)) => visitor.visit_u64(value),
        (None, None) => visitor.visit_f64(number.as_f64().unwrap_or_default()),
    }
}

/// Whole numbers by the bounds of their types.
macro_rules! deserialize_whole {
    ($($method:ident: $type:ty,)*) => {
        $(fn $method<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Fault> {
            // Bounds of unsigned types start at zero, and those of signed types end below u64's.
            self.visit_whole(<$type>::MIN as i64, <$type>::MAX as u64, visitor)
        })*
    };
}

impl<'t, T: Tree> Deserializer<'t> for Cursor<'t, '_, T> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.visit_any(visitor)
    }

    deserialize_whole! {
        deserialize_i8: i8,
        deserialize_i16: i16,
        deserialize_i32: i32,
        deserialize_i64: i64,
        deserialize_u8: u8,
        deserialize_u16: u16,
        deserialize_u32: u32,
        deserialize_u64: u64,
    }

    fn deserialize_bool<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Fault> {
        let value = match self.tree.view() {
            View::Bool(value) => value,
            View::Null => false,
            _ => {
                self.note_wrong_type("a boolean");
                false
            }
        };
        self.placed(visitor.visit_bool(value))
    }

    fn deserialize_f64<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Fault> {
        let value = match self.tree.view() {
            View::Number(number) => number.as_f64().unwrap_or_default(),
            View::Null => 0.0,
            _ => {
                self.note_wrong_type("a number");
                0.0
            }
        };
        self.placed(visitor.visit_f64(value))
    }

    fn deserialize_f32<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_f64(visitor)
    }

    fn deserialize_str<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Fault> {
        let text = match self.tree.view() {
            View::Text(text) => text,
            View::Null => "",
            _ => {
                self.note_wrong_type("a string");
                ""
            }
        };
        self.placed(visitor.visit_str(text))
    }

    fn deserialize_string<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_str(visitor)
    }

    fn deserialize_seq<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Fault> {
        let list = match self.tree.view() {
            View::List(list) => list,
            View::Null => &[],
            _ => {
                self.note_wrong_type("a list");
                &[]
            }
        };
        let visited = self.visit_list(list, visitor);
        self.placed(visited)
    }

    fn deserialize_map<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Fault> {
        let members = match self.tree.view() {
            View::Map(members) => Some(members),
            View::Null => None,
            _ => {
                self.note_wrong_type("an object");
                None
            }
        };
        let visited = self.visit_members(members, &[], visitor);
        self.placed(visited)
    }

    fn deserialize_struct<V: Visitor<'t>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let members = match (self.tree.view(), self.tree.view()) {
            (View::Map(members), View::Map(again)) => {
                self.note_unknown(&Place { fields, ..self.place }, again);
                Some(members)
            }
            (View::Null, _) => None,
            _ => {
                self.note_wrong_type("an object");
                None
            }
        };
        let visited = self.visit_members(members, fields, visitor);
        self.placed(visited)
    }

    fn deserialize_option<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.tree.view() {
            View::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'t>>(self, name: &'static str, visitor: V) -> Result<V::Value, Fault> {
        if name != "Quantity" {
            return visitor.visit_newtype_struct(self);
        }
        // The API server takes a number for a quantity, and refuses a text that is none while it decodes.
        let text = match self.tree.view() {
            View::Text(text) => text.to_owned(),
            View::Number(number) => number.to_string(),
            View::Null => "0".to_owned(),
            _ => {
                self.note_wrong_type("a quantity");
                "0".to_owned()
            }
        };
        if let Err(error) = quantity::parse(text.trim()) {
            let hint = "write a number with or without a suffix, as in `500m`, `2`, `128Mi`, `1Gi`";
            self.note(format!("`{text}` is no quantity: {error}"), Some(hint.to_owned()));
            return visitor.visit_newtype_struct(IntoDeserializer::<Fault>::into_deserializer("0"));
        }
        visitor.visit_newtype_struct(IntoDeserializer::<Fault>::into_deserializer(text))
    }

    fn deserialize_ignored_any<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! {
        <W: Visitor<'t>>
        i128 u128 char bytes byte_buf unit unit_struct tuple tuple_struct enum identifier
    }
}

struct Elements<'t, 'p, T: Tree> {
    rest: std::iter::Enumerate<std::slice::Iter<'t, T>>,
    place: &'p Place<'p>,
    unfit: &'p RefCell<Vec<UnfitField>>,
}

impl<'t, T: Tree> SeqAccess<'t> for Elements<'t, '_, T> {
    type Error = Fault;

    fn next_element_seed<S: DeserializeSeed<'t>>(&mut self, seed: S) -> Result<Option<S::Value>, Fault> {
        let Some((index, tree)) = self.rest.next() else { return Ok(None) };
        let place = Place { parent: Some(self.place), step: Step::Index(index), fields: &[] };
        seed.deserialize(Cursor { tree, place, unfit: self.unfit }).map(Some)
    }
}

struct Members<'t, 'p, T: Tree> {
    rest: Option<T::Members<'t>>,
    value: Option<(&'t str, &'t T)>,
    place: &'p Place<'p>,
    unfit: &'p RefCell<Vec<UnfitField>>,
}

impl<'t, T: Tree> MapAccess<'t> for Members<'t, '_, T> {
    type Error = Fault;

    fn next_key_seed<S: DeserializeSeed<'t>>(&mut self, seed: S) -> Result<Option<S::Value>, Fault> {
        self.value = self.rest.as_mut().and_then(Iterator::next);
        let Some((name, _)) = self.value else { return Ok(None) };
        seed.deserialize(IntoDeserializer::<Fault>::into_deserializer(name)).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'t>>(&mut self, seed: S) -> Result<S::Value, Fault> {
        let (name, tree) = self.value.take().ok_or_else(|| de::Error::custom("a value without a key"))?;
        // A map has no fields of its own: what it holds is found by keys.
        let step = if self.place.fields.is_empty() { Step::Key(name) } else { Step::Field(name) };
        let place = Place { parent: Some(self.place), step, fields: &[] };
        seed.deserialize(Cursor { tree, place, unfit: self.unfit })
    }
}
