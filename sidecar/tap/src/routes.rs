//! Whose a request is, by its path.

use percent_encoding::percent_decode_str;
use sluice_shared::resource::Service;

use crate::config::Route;

/// Kind of the error for a path of no resource.
pub(crate) const UNKNOWN: &str = "UnknownResourceException";
/// Whose a request is, by its path.
pub(crate) enum Found<'a> {
    /// Braket's.
    Braket,
    /// A resource's, with what follows the name of the resource in the path.
    Route(&'a Route, &'a str),
    /// One that this pod does not have; for people.
    Unknown(String),
}

/// Reads `/<type>/<name>/…`. PURE.
pub(crate) fn find<'a>(routes: &'a [Route], path: &'a str) -> Found<'a> {
    let mut parts = path.strip_prefix('/').unwrap_or(path).splitn(3, '/');
    let (Some(word), name) = (parts.next(), parts.next()) else { return Found::Braket };
    let Some(service) = Service::of_type(word) else { return Found::Braket };
    let name = percent_decode_str(name.unwrap_or_default()).decode_utf8_lossy();
    let is_it = |route: &&Route| route.resource.service == service && route.resource.name == name;
    if let Some(route) = routes.iter().find(is_it) {
        let rest = parts.next().map_or("", |rest| &path[path.len() - rest.len() - 1..]);
        return Found::Route(route, rest);
    }
    let known: Vec<_> = routes.iter().map(|route| route.resource.to_string()).collect();
    Found::Unknown(format!(
        "This pod has no resource {word}/{name}; it has: {}. The Sluice sidecar knows the resources \
         whose endpoint variables the container had when it was admitted.",
        if known.is_empty() { "none".to_owned() } else { known.join(", ") }
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_routes() -> Vec<Route> {
        ["iqm-server/garnet", "pasqal-cloud/a b"]
            .map(|name| Route {
                resource: name.parse().unwrap(),
                endpoint: Err("nowhere".to_owned()),
            })
            .into()
    }

    #[test]
    fn paths_name_their_resource() {
        let routes = mk_routes();
        for (path, expected) in [
            ("/iqm-server/garnet/api/v1/jobs", Some(("iqm-server/garnet", "/api/v1/jobs"))),
            ("/iqm-server/garnet/", Some(("iqm-server/garnet", "/"))),
            ("/iqm-server/garnet", Some(("iqm-server/garnet", ""))),
            ("/iqm-server/garnet//x", Some(("iqm-server/garnet", "//x"))),
            ("/pasqal-cloud/a%20b/x", Some(("pasqal-cloud/a b", "/x"))),
            ("/quantum-task", None),
            ("/", None),
            ("", None),
        ] {
            let found = match find(&routes, path) {
                Found::Route(route, rest) => Some((route.resource.to_string(), rest)),
                Found::Braket => None,
                Found::Unknown(text) => panic!("{path}: {text}"),
            };
            let found = found.as_ref().map(|(name, rest)| (name.as_str(), *rest));
            assert_eq!(found, expected, "{path}");
        }
    }

    #[test]
    fn a_resource_that_is_not_there_is_named_with_those_that_are() {
        for path in ["/iqm-server/emerald/api", "/iqm-server", "/alice-bob-felis/garnet/x"] {
            let Found::Unknown(text) = find(&mk_routes(), path) else { panic!("{path}") };
            assert!(text.contains("iqm-server/garnet, pasqal-cloud/a b"), "{text}");
        }
    }
}
