//! How `run` prints what happens: text for people, or one JSON object per change.
//!
//! Only this file knows columns and colours. What is worth printing is decided in `session`.

use std::collections::BTreeMap;
use std::io::{self, Write};

use anstyle::{AnsiColor, Color, Style};
use serde_json::{Value, json};

use crate::cli::OutputFormat;

/// One line of `kubectl get pods -w`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodLine {
    pub(crate) name: String,
    pub(crate) ready: String,
    pub(crate) status: String,
    pub(crate) restarts: String,
    pub(crate) age: String,
}

/// What to print, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RenderOptions {
    pub(crate) format: OutputFormat,
    /// Containers' output only.
    pub(crate) quiet: bool,
    /// No containers' output.
    pub(crate) no_logs: bool,
}

/// Prints to a stream that strips colours where they are not wanted.
pub(crate) struct Renderer<W> {
    out: W,
    options: RenderOptions,
    header_printed: bool,
    name_width: usize,
    last_lines: BTreeMap<String, PodLine>,
    colours: BTreeMap<(String, String), Color>,
}

/// The colours of containers, in the order in which they speak; none of them is red, which means an error.
const PALETTE: &[AnsiColor] = &[
    AnsiColor::Cyan,
    AnsiColor::Green,
    AnsiColor::Magenta,
    AnsiColor::Yellow,
    AnsiColor::Blue,
    AnsiColor::BrightCyan,
    AnsiColor::BrightGreen,
    AnsiColor::BrightMagenta,
    AnsiColor::BrightBlue,
];

impl<W: Write> Renderer<W> {
    pub(crate) fn new(out: W, options: RenderOptions) -> Self {
        Renderer {
            out,
            options,
            header_printed: false,
            name_width: 16,
            last_lines: BTreeMap::new(),
            colours: BTreeMap::new(),
        }
    }

    /// Makes room for names that are known to come, so that columns stand still.
    pub(crate) fn expect_name(&mut self, length: usize) {
        self.name_width = self.name_width.max(length);
    }

    /// A pod changed: a line, unless it would say the same as the one before.
    pub(crate) fn pod(&mut self, change: &str, object: &Value, line: PodLine) -> io::Result<()> {
        if self.options.format == OutputFormat::Json {
            return self.json(&json!({"kind": "Pod", "type": change, "object": object}));
        }
        let same = self.last_lines.get(&line.name).is_some_and(|before| {
            (&before.ready, &before.status, &before.restarts) == (&line.ready, &line.status, &line.restarts)
        });
        if self.options.quiet || same {
            return Ok(());
        }
        self.name_width = self.name_width.max(line.name.len());
        let width = self.name_width;
        if !self.header_printed {
            self.header_printed = true;
            writeln!(self.out, "{:width$}   READY   STATUS              RESTARTS   AGE", "NAME")?;
        }
        let style = status_style(&line.status);
        writeln!(
            self.out,
            "{:width$}   {:<5}   {style}{:<17}{style:#}   {:<8}   {}",
            line.name, line.ready, line.status, line.restarts, line.age
        )?;
        self.last_lines.insert(line.name.clone(), line);
        self.out.flush()
    }

    /// A Job changed; text says nothing of it, the pods do.
    pub(crate) fn job(&mut self, change: &str, object: &Value) -> io::Result<()> {
        match self.options.format {
            OutputFormat::Json => self.json(&json!({"kind": "Job", "type": change, "object": object})),
            OutputFormat::Text => Ok(()),
        }
    }

    /// An event about `name`: `message` and whether it is a warning.
    pub(crate) fn event(
        &mut self,
        object: &Value,
        name: &str,
        warning: bool,
        reason: &str,
        message: &str,
    ) -> io::Result<()> {
        if self.options.format == OutputFormat::Json {
            return self.json(&json!({"kind": "Event", "type": "ADDED", "object": object}));
        }
        if self.options.quiet || !is_worth_a_line(warning, reason) {
            return Ok(());
        }
        let style = if warning { foreground(AnsiColor::Yellow) } else { Style::new().dimmed() };
        writeln!(self.out, "{style}{name}: {reason}: {message}{style:#}")?;
        self.out.flush()
    }

    /// One line of a container's output, without its end.
    pub(crate) fn log(&mut self, pod: &str, container: &str, stream: &str, text: &str) -> io::Result<()> {
        if self.options.no_logs {
            return Ok(());
        }
        if self.options.format == OutputFormat::Json {
            let line = json!({"kind": "Log", "pod": pod, "container": container, "stream": stream, "line": text});
            return self.json(&line);
        }
        let next = PALETTE.get(self.colours.len() % PALETTE.len()).copied().unwrap_or(AnsiColor::White);
        let colour = *self.colours.entry((pod.to_owned(), container.to_owned())).or_insert(next.into());
        let style = Style::new().fg_color(Some(colour));
        writeln!(self.out, "{style}{pod} {container} |{style:#} {text}")?;
        self.out.flush()
    }

    /// Something that monopod itself has to say in the middle of it: a finding with its remedy.
    pub(crate) fn finding(&mut self, name: &str, message: &str, hint: &str, yaml: &str) -> io::Result<()> {
        if self.options.format == OutputFormat::Json {
            return self
                .json(&json!({"kind": "Finding", "name": name, "message": message, "hint": hint, "yaml": yaml}));
        }
        let (yellow, cyan) = (foreground(AnsiColor::Yellow).bold(), foreground(AnsiColor::Cyan).bold());
        writeln!(self.out, "{yellow}{name} can't end{yellow:#}: {message}")?;
        writeln!(self.out, "{cyan}hint{cyan:#}: {hint}\n")?;
        for line in yaml.lines() {
            writeln!(self.out, "    {line}")?;
        }
        writeln!(self.out)?;
        self.out.flush()
    }

    /// What to do about something that was just shown of `name`.
    pub(crate) fn hint(&mut self, name: &str, hint: &str) -> io::Result<()> {
        if self.options.format == OutputFormat::Json {
            return self.json(&json!({"kind": "Hint", "name": name, "hint": hint}));
        }
        let cyan = foreground(AnsiColor::Cyan).bold();
        writeln!(self.out, "{cyan}hint{cyan:#}: {hint}")?;
        self.out.flush()
    }

    fn json(&mut self, value: &Value) -> io::Result<()> {
        writeln!(self.out, "{value}")?;
        self.out.flush()
    }
}

/// Warnings, and the few normal events that explain a wait.
fn is_worth_a_line(warning: bool, reason: &str) -> bool {
    warning || matches!(reason, "Pulling" | "DeadlineExceeded" | "BackOff")
}

fn foreground(colour: AnsiColor) -> Style {
    Style::new().fg_color(Some(colour.into()))
}

fn status_style(status: &str) -> Style {
    match status {
        "Running" | "Completed" => foreground(AnsiColor::Green),
        _ if status.contains("Error") || status.contains("BackOff") || status.contains("Err") => {
            foreground(AnsiColor::Red)
        }
        _ => Style::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(ready: &str, status: &str) -> PodLine {
        PodLine {
            name: "export-x7k2p".to_owned(),
            ready: ready.to_owned(),
            status: status.to_owned(),
            restarts: "0".to_owned(),
            age: "0s".to_owned(),
        }
    }

    fn render(options: RenderOptions, print: impl FnOnce(&mut Renderer<&mut Vec<u8>>) -> io::Result<()>) -> String {
        let mut bytes = Vec::new();
        assert!(print(&mut Renderer::new(&mut bytes, options)).is_ok());
        anstream::adapter::strip_str(&String::from_utf8_lossy(&bytes)).to_string()
    }

    const TEXT: RenderOptions = RenderOptions { format: OutputFormat::Text, quiet: false, no_logs: false };

    #[test]
    fn a_pod_is_printed_once_for_each_change_that_can_be_seen() {
        let text = render(TEXT, |renderer| {
            renderer.pod("ADDED", &Value::Null, line("0/2", "Pending"))?;
            renderer.pod("MODIFIED", &Value::Null, line("0/2", "Pending"))?;
            renderer.pod("MODIFIED", &Value::Null, line("0/2", "Init:0/1"))
        });
        assert_eq!(
            text,
            "NAME               READY   STATUS              RESTARTS   AGE\n\
             export-x7k2p       0/2     Pending             0          0s\n\
             export-x7k2p       0/2     Init:0/1            0          0s\n"
        );
    }

    #[test]
    fn quiet_leaves_the_output_of_containers_only() {
        let quiet = RenderOptions { quiet: true, ..TEXT };
        let text = render(quiet, |renderer| {
            renderer.pod("ADDED", &Value::Null, line("0/2", "Pending"))?;
            renderer.event(&Value::Null, "export", true, "BackOff", "waits")?;
            renderer.log("export-x7k2p", "exporter", "stdout", "done")
        });
        assert_eq!(text, "export-x7k2p exporter | done\n");
    }

    #[test]
    fn json_is_one_object_a_line() {
        let json_options = RenderOptions { format: OutputFormat::Json, ..TEXT };
        let text = render(json_options, |renderer| {
            renderer.pod("ADDED", &json!({"a": 1}), line("0/2", "Pending"))?;
            renderer.log("p", "c", "stderr", "x")
        });
        assert_eq!(
            text,
            "{\"kind\":\"Pod\",\"type\":\"ADDED\",\"object\":{\"a\":1}}\n\
             {\"kind\":\"Log\",\"pod\":\"p\",\"container\":\"c\",\"stream\":\"stderr\",\"line\":\"x\"}\n"
        );
    }
}
