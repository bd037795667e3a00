//! What is wrong with a manifest, as data; and how people read it.

use std::fmt;
use std::ops::Range;

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};

use super::node::Span;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The manifest can't be used so.
    Error,
    /// It can, but it will not do what it seems to.
    Warning,
}

/// One thing that is wrong, with its place and what to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnostic {
    /// How much it matters.
    pub severity: Severity,
    /// What is wrong; lower case, no full stop.
    pub message: String,
    /// The file's name as people gave it.
    pub file: String,
    /// Where in the file, if at a place.
    pub span: Option<Span>,
    /// The field's path as the API server writes it, if at a field.
    pub field_path: Option<String>,
    /// What to do.
    pub hint: Option<String>,
    /// What else there is to know.
    pub notes: Vec<Note>,
}

/// A remark beside a finding, at a place of the same file or at none.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    /// The remark; lower case, no full stop.
    pub message: String,
    /// Where it applies.
    pub span: Option<Span>,
}

impl Diagnostic {
    /// An error in a file.
    pub fn error(file: &str, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            severity: Severity::Error,
            message: message.into(),
            file: file.to_owned(),
            span: None,
            field_path: None,
            hint: None,
            notes: Vec::new(),
        }
    }

    /// A warning about a file.
    pub fn warning(file: &str, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(file, message) }
    }

    /// The same, at a place.
    #[must_use]
    pub fn at(mut self, span: Span) -> Diagnostic {
        self.span = Some(span);
        self
    }

    /// The same, at a field.
    #[must_use]
    pub fn field(mut self, path: impl Into<String>) -> Diagnostic {
        self.field_path = Some(path.into()).filter(|path| !path.is_empty());
        self
    }

    /// The same, with what to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Diagnostic {
        self.hint = Some(hint.into());
        self
    }

    /// The same, with a remark.
    #[must_use]
    pub fn note(mut self, message: impl Into<String>, span: Option<Span>) -> Diagnostic {
        self.notes.push(Note { message: message.into(), span });
        self
    }

    /// As text with an excerpt of the file, for a terminal with or without colours.
    pub fn render(&self, text: &str, colour: bool) -> String {
        let level = match self.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let mut group = Group::with_title(level.primary_title(&self.message));
        match self.span.and_then(|span| excerpt(text, span)) {
            Some(range) => group = group.element(self.snippet(text, range)),
            None => group = group.element(Origin::path(&self.file)),
        }
        for note in self.notes.iter().filter(|note| note.span.is_none()) {
            group = group.element(Level::NOTE.message(&note.message));
        }
        if let Some(hint) = &self.hint {
            group = group.element(Level::HELP.with_name("hint").message(hint));
        }
        let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
        renderer.decor_style(DecorStyle::Ascii).render(&[group])
    }

    fn snippet<'a>(&'a self, text: &'a str, range: Range<usize>) -> Snippet<'a, annotate_snippets::Annotation<'a>> {
        let label = self.field_path.as_deref().unwrap_or_default();
        let primary = AnnotationKind::Primary.span(range).label(label);
        let context = self.notes.iter().filter_map(|note| {
            let range = excerpt(text, note.span?)?;
            Some(AnnotationKind::Context.span(range).label(note.message.as_str()))
        });
        Snippet::source(text).path(&self.file).annotation(primary).annotations(context)
    }
}

impl fmt::Display for Diagnostic {
    /// One line: `file:line:column: message`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(span) = self.span {
            write!(f, ":{}:{}", span.start.line, span.start.column)?;
        }
        write!(f, ": {}", self.message)
    }
}

/// The range of a span in the text, cut to its first line; `None` if it lies outside.
fn excerpt(text: &str, span: Span) -> Option<Range<usize>> {
    let rest = text.get(span.start.byte..)?;
    let line = rest.find('\n').unwrap_or(rest.len());
    let end = span.end.byte.clamp(span.start.byte, span.start.byte + line);
    text.get(span.start.byte..end)?;
    Some(span.start.byte..end)
}
