//! Whose a request is, by its path and its kind of signature.

use percent_encoding::percent_decode_str;
use sluice_shared::resource::Service;

use crate::config::Route;

/// Kind of the error for a path of no resource.
pub(crate) const UNKNOWN: &str = "UnknownResourceException";
/// Whose a request is.
pub(crate) enum Found<'a> {
    /// Braket's.
    Braket,
    /// A resource's, with the path at its server.
    Route(&'a Route, &'a str),
    /// One that this pod does not have; for people.
    Unknown(String),
}

/// Reads `/<type>/<name>/…`. Without that, what is signed for AWS is Braket's, and all else belongs
/// to the only resource that the pod has. PURE.
pub(crate) fn find<'a>(routes: &'a [Route], path: &'a str, is_signed: bool) -> Found<'a> {
    let mut parts = path.strip_prefix('/').unwrap_or(path).splitn(3, '/');
    let (word, name) = (parts.next().unwrap_or_default(), parts.next());
    let Some(service) = Service::of_type(word) else {
        return match routes {
            [only] if !is_signed => Found::Route(only, path),
            _ => Found::Braket,
        };
    };
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
            let found = match find(&routes, path, false) {
                Found::Route(route, rest) => Some((route.resource.to_string(), rest)),
                Found::Braket => None,
                Found::Unknown(text) => panic!("{path}: {text}"),
            };
            let found = found.as_ref().map(|(name, rest)| (name.as_str(), *rest));
            assert_eq!(found, expected, "{path}");
        }
    }

    #[test]
    fn the_only_resource_has_all_that_is_not_signed_for_aws() {
        let one = &mk_routes()[..1];
        for path in ["/api/v1/jobs/garnet/circuit", "/quantum-task", "/", ""] {
            let Found::Route(route, rest) = find(one, path, false) else { panic!("{path}") };
            assert_eq!((route, rest), (&one[0], path));
            assert!(matches!(find(one, path, true), Found::Braket), "{path}");
            assert!(matches!(find(&[], path, false), Found::Braket), "{path}");
        }
        let Found::Route(_, rest) = find(one, "/iqm-server/garnet/x", true) else { panic!() };
        assert_eq!(rest, "/x");
    }

    #[test]
    fn a_resource_that_is_not_there_is_named_with_those_that_are() {
        for path in ["/iqm-server/emerald/api", "/iqm-server", "/alice-bob-felis/garnet/x"] {
            let Found::Unknown(text) = find(&mk_routes(), path, false) else { panic!("{path}") };
            assert!(text.contains("iqm-server/garnet, pasqal-cloud/a b"), "{text}");
        }
    }
}
