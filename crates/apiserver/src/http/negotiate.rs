//! Which form of an answer the client takes: the Accept header.
//!
//! Everything is answered in JSON (or YAML if nothing else is taken); what is chosen here is its shape.
//! Pure.

/// The shape of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Shape {
    /// The object itself.
    #[default]
    Plain,
    /// A `meta.k8s.io` Table.
    Table,
    /// Only `metadata`.
    Metadata,
}

/// How the answer is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Format {
    /// JSON.
    #[default]
    Json,
    /// JSON with indentation.
    PrettyJson,
    /// YAML.
    Yaml,
}

/// What the client takes, as far as the server can give it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Accepted {
    /// The shape.
    pub(super) shape: Shape,
    /// The format.
    pub(super) format: Format,
}

/// One clause of an Accept header.
#[derive(Clone, Debug, PartialEq)]
struct Clause<'a> {
    media_type: &'a str,
    quality: f32,
    parameters: Vec<(&'a str, &'a str)>,
}

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let media_type = parts.next().unwrap_or_default();
        let parameters: Vec<_> =
            parts.filter_map(|part| part.split_once('=')).map(|(k, v)| (k.trim(), v.trim())).collect();
        let quality = parameters.iter().find(|(name, _)| *name == "q").and_then(|(_, value)| value.parse().ok());
        Self { media_type, quality: quality.unwrap_or(1.0), parameters }
    }

    fn parameter(&self, name: &str) -> Option<&'a str> {
        self.parameters.iter().find(|(key, _)| *key == name).map(|(_, value)| *value)
    }
}

/// The first clause that the server can answer, best quality first; `None` if there is none (406).
pub(super) fn accept(header: &str) -> Option<Accepted> {
    if header.trim().is_empty() {
        return Some(Accepted::default());
    }
    clauses(header).into_iter().find_map(|clause| {
        let format = match clause.media_type {
            "application/json" | "*/*" | "application/*" => Format::Json,
            "application/yaml" => Format::Yaml,
            _ => return None,
        };
        Some(Accepted { shape: shape(&clause)?, format })
    })
}

/// True if the header asks for the aggregated discovery document and takes it before the plain one.
pub(super) fn accepts_aggregated_discovery(header: &str) -> bool {
    let first = clauses(header).into_iter().find(|clause| {
        matches!(clause.media_type, "application/json" | "*/*" | "application/*")
            && (clause.parameter("as").is_none() || is_aggregated_discovery(clause))
    });
    first.is_some_and(|clause| is_aggregated_discovery(&clause))
}

fn is_aggregated_discovery(clause: &Clause<'_>) -> bool {
    let wanted = [("g", "apidiscovery.k8s.io"), ("v", "v2"), ("as", "APIGroupDiscoveryList")];
    wanted.iter().all(|(name, value)| clause.parameter(name) == Some(value))
}

/// The clauses in the order of preference; those of quality 0 are refusals and left out.
fn clauses(header: &str) -> Vec<Clause<'_>> {
    let mut clauses: Vec<_> =
        header.split(',').map(|text| Clause::parse(text.trim())).filter(|clause| clause.quality > 0.0).collect();
    clauses.sort_by(|one, other| other.quality.total_cmp(&one.quality));
    clauses
}

fn shape(clause: &Clause<'_>) -> Option<Shape> {
    match (clause.parameter("as"), clause.parameter("g"), clause.parameter("v")) {
        (None, _, _) => Some(Shape::Plain),
        (Some("Table"), Some("meta.k8s.io"), Some("v1")) => Some(Shape::Table),
        (Some("PartialObjectMetadata" | "PartialObjectMetadataList"), Some("meta.k8s.io"), Some("v1")) => {
            Some(Shape::Metadata)
        }
        // Another version of a known shape, or a shape of the future: a later clause may fit.
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(shape: Shape) -> Option<Accepted> {
        Some(Accepted { shape, format: Format::Json })
    }

    #[test]
    fn a_33_every_clients_header_is_answered_in_json() {
        for header in [
            "",
            "*/*",
            "application/vnd.kubernetes.protobuf,application/json",
            "application/vnd.kubernetes.protobuf, */*",
            "application/json, */*",
            "application/json;stream=watch",
        ] {
            assert_eq!(accept(header), json(Shape::Plain), "{header}");
        }
    }

    #[test]
    fn a_60_kubectl_get_is_given_a_table() {
        let header = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(accept(header), json(Shape::Table));
        let old = "application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(accept(old), json(Shape::Plain));
    }

    #[test]
    fn a_32_quality_orders_the_clauses() {
        let yaml = Some(Accepted { shape: Shape::Plain, format: Format::Yaml });
        assert_eq!(accept("application/json;q=0.5, application/yaml"), yaml);
        assert_eq!(accept("text/html, application/json;q=0"), None);
    }

    #[test]
    fn a_15_aggregated_discovery_is_chosen_by_three_parameters() {
        let new = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
        let old = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
        assert!(accepts_aggregated_discovery(new));
        assert!(!accepts_aggregated_discovery(old));
        assert!(!accepts_aggregated_discovery("application/json"));
    }
}
