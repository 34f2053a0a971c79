//! The resources of QRMI that the program of a container can reach: found by the names of
//! variables, and by the lists of the job where the variables are hidden in an `envFrom`.

use std::fmt;

use k8s_openapi::api::core::v1::{Container, EnvVar};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sluice_shared::resource::{NOT_FOLLOWED, Resource, Service, TABLE};

use super::{env, tap};

/// Lists of names and types, as QRMI reads them, the newer first.
const LISTS: [(&str, &str); 2] = [
    ("QRMI_JOB_QPU_RESOURCES", "QRMI_JOB_QPU_TYPES"),
    ("SLURM_JOB_QPU_RESOURCES", "SLURM_JOB_QPU_TYPES"),
];
/// What separates the items of the lists.
const DELIMITER: &str = "QRMI_LIST_DELIMITER";
/// The same when nothing says so.
const COMMA: &str = ",";
/// Ends of variables that only a resource of Pasqal's local warden has.
const WARDEN: [&str; 2] = ["QRMI_WARDEN_URL", "QRMI_URL"];
/// The variable by which qiskit-ibm-runtime signs in when QRMI is not used.
const QISKIT: &str = "QISKIT_IBM_TOKEN";
/// The name of the resource that such programs reach. Its tasks are announced.
const QISKIT_NAME: &str = "qiskit";

/// What is written out in a segment of a path.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A resource, and the variables that point its client at the tap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reached {
    /// Which one.
    pub resource: Resource,
    /// The variables; none where the client takes its endpoint from elsewhere.
    pub variables: Vec<String>,
}

/// Something about the resources that is worth a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remark {
    /// A type that is known and not followed.
    NotFollowed {
        /// The type.
        kind: &'static str,
        /// The resource.
        name: String,
        /// Why not.
        why: &'static str,
    },
    /// A type that nobody knows.
    UnknownType {
        /// The type.
        kind: String,
        /// The resource.
        name: String,
    },
    /// One name for two resources.
    Twice(String),
    /// The lists do not fit together.
    Lengths {
        /// Names.
        names: usize,
        /// Types.
        types: usize,
    },
    /// An endpoint that is no URL.
    Endpoint(String),
    /// A program of qiskit-ibm-runtime, which takes no endpoint.
    Qiskit,
    /// A resource of another container than the one that the sidecar follows.
    Elsewhere {
        /// The resource.
        resource: Resource,
        /// The container that is followed.
        program: String,
    },
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFollowed { kind, name, why } => {
                write!(f, "resource {name:?} of type {kind} is not followed: {why}")
            }
            Self::UnknownType { kind, name } => write!(
                f,
                "resource {name:?} has the unknown type {kind:?}; followed are {}",
                TABLE.map(|row| row.types[0]).join(", ")
            ),
            Self::Twice(name) => {
                write!(f, "resource {name:?} is listed twice: QRMI finds its variables by the name")
            }
            Self::Lengths { names, types } => write!(
                f,
                "QRMI_JOB_QPU_RESOURCES names {names} resources, QRMI_JOB_QPU_TYPES {types} types"
            ),
            Self::Endpoint(variable) => {
                write!(f, "{variable} is no URL; write it as https://host[:port][/path]")
            }
            Self::Elsewhere { resource, program } => write!(
                f,
                "{resource} is not followed: the sidecar follows container {program:?}, which does \
                 not have it at the same address; let the program announce its task there, or \
                 give both containers the same variables"
            ),
            Self::Qiskit => f.write_str(
                "qiskit-ibm-runtime takes no endpoint from the environment: let the program tell \
                 its job (POST $SLUICE_URL/v1/tasks)",
            ),
        }
    }
}

/// The resources of a container, in a fixed order.
#[must_use]
pub fn of(container: &Container) -> Vec<Reached> {
    let entries = container.env.as_deref().unwrap_or_default();
    let mut found: Vec<Reached> = Vec::new();
    let mut add = |resource: Resource, variable: Option<String>| {
        let index = found.iter().position(|r| r.resource == resource).unwrap_or_else(|| {
            found.push(Reached { resource, variables: Vec::new() });
            found.len() - 1
        });
        let variables = &mut found[index].variables;
        variables.extend(variable.filter(|name| !variables.contains(name)));
    };
    for entry in entries {
        if let Some((name, service)) = Service::of_endpoint(&entry.name) {
            add(Resource { service, name: name.to_owned() }, Some(entry.name.clone()));
        }
    }
    for (name, kind) in listed(entries).unwrap_or_default() {
        let Some(service) = Service::of_type(kind) else { continue };
        let resource = Resource { service, name: name.to_owned() };
        let is_set = resource.endpoints().any(|name| env::get(entries, &name).is_some());
        // Programs with the older word for the type read the older variable.
        let row = service.row();
        let age = row.types.iter().position(|word| *word == kind).unwrap_or_default();
        let endpoint = row.endpoints.get(age).or(row.endpoints.first());
        let variable = endpoint.filter(|_| !is_set).map(|name| resource.variable(name));
        add(resource, variable);
    }
    let of_ibm = |r: &Reached| r.resource.service == Service::IbmQuantumComputeService;
    if env::get(entries, QISKIT).is_some() && !found.iter().any(of_ibm) {
        let service = Service::IbmQuantumComputeService;
        let resource = Resource { service, name: QISKIT_NAME.to_owned() };
        found.push(Reached { resource, variables: Vec::new() });
    }
    found.retain(|r| r.resource.to_string().parse() == Ok(r.resource.clone()));
    found
}

/// What is worth a word about the resources of a container.
#[must_use]
pub fn remarks(container: &Container) -> Vec<Remark> {
    let entries = container.env.as_deref().unwrap_or_default();
    let mut remarks = Vec::new();
    let not_followed = |kind: &str, name: &str| {
        let (kind, why) = NOT_FOLLOWED.iter().copied().find(|(word, _)| *word == kind)?;
        Some(Remark::NotFollowed { kind, name: name.to_owned(), why })
    };
    match listed(entries) {
        Err((names, types)) => remarks.push(Remark::Lengths { names, types }),
        Ok(list) => {
            for (index, (name, kind)) in list.iter().enumerate() {
                if list[..index].iter().any(|(earlier, _)| earlier == name) {
                    remarks.push(Remark::Twice((*name).to_owned()));
                }
                if let Some(remark) = not_followed(kind, name) {
                    remarks.push(remark);
                } else if Service::of_type(kind).is_none() {
                    let (kind, name) = ((*kind).to_owned(), (*name).to_owned());
                    remarks.push(Remark::UnknownType { kind, name });
                }
            }
        }
    }
    for entry in entries {
        let prefix = WARDEN.iter().find_map(|end| entry.name.strip_suffix(end));
        if let Some(remark) = prefix
            .and_then(|prefix| not_followed(NOT_FOLLOWED[0].0, prefix.trim_end_matches('_')))
            .filter(|remark| !remarks.contains(remark))
        {
            remarks.push(remark);
        }
        let is_url = |value: &str| value.starts_with("http://") || value.starts_with("https://");
        let unusable = entry.value_from.is_none()
            && !is_url(entry.value.as_deref().unwrap_or_default())
            && !entry.value.as_deref().is_some_and(|value| value.contains("$("));
        if unusable && Service::of_endpoint(&entry.name).is_some() {
            remarks.push(Remark::Endpoint(entry.name.clone()));
        }
    }
    if of(container).iter().any(|reached| reached.variables.is_empty()) {
        remarks.push(Remark::Qiskit);
    }
    remarks
}

/// Names and types of the job's lists; the numbers of both where they do not fit together.
fn listed(entries: &[EnvVar]) -> Result<Vec<(&str, &str)>, (usize, usize)> {
    let given = |name: &str| env::literal(entries, name).filter(|v| !v.trim().is_empty());
    let delimiter = given(DELIMITER).unwrap_or(COMMA);
    let Some((names, types)) = LISTS.into_iter().find(|(names, _)| given(names).is_some()) else {
        return Ok(Vec::new());
    };
    // Hidden types cannot be read here; the variables still tell.
    let (Some(names), Some(types)) = (given(names), given(types)) else { return Ok(Vec::new()) };
    let names: Vec<_> = names.split(delimiter).map(str::trim).collect();
    let types: Vec<_> = types.split(delimiter).map(str::trim).collect();
    if names.len() != types.len() {
        return Err((names.len(), types.len()));
    }
    Ok(names.into_iter().zip(types).collect())
}

/// The resources of a container: those that the tap of its pod serves, which `program`, the
/// container that the sidecar follows, has at the same addresses; and the others.
#[must_use]
pub fn split(container: &Container, program: &Container) -> (Vec<Reached>, Vec<Reached>) {
    let entries = container.env.as_deref().unwrap_or_default();
    let of_program = program.env.as_deref().unwrap_or_default();
    let own = of(program);
    let is_served = |reached: &Reached| {
        let is_same = |name: &String| env::get(entries, name) == env::get(of_program, name);
        own.iter().any(|own| own.resource == reached.resource)
            && reached.variables.iter().all(is_same)
    };
    of(container).into_iter().partition(is_served)
}

/// Where the tap serves a resource, as its client sees it. The pod's only one is at the origin,
/// where the vendors are too: some clients cannot take an address with a path (IQM's own loses the
/// port, Alice & Bob's the last segment).
#[must_use]
pub fn url(resource: &Resource, is_only: bool) -> String {
    if is_only {
        return tap::url();
    }
    let name = utf8_percent_encode(&resource.name, SEGMENT);
    format!("{}/{}/{name}", tap::url(), resource.service)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn mk_container(env: &serde_json::Value) -> Container {
        serde_json::from_value(json!({"name": "c", "env": env})).unwrap()
    }

    fn found(env: &serde_json::Value) -> Vec<(String, Vec<String>)> {
        of(&mk_container(env)).into_iter().map(|r| (r.resource.to_string(), r.variables)).collect()
    }

    #[test]
    fn variables_name_their_resources() {
        let env = json!([
            {"name": "garnet_QRMI_IQM_ISA_ENDPOINT", "value": "https://iqm.example"},
            {"name": "fez_QRMI_IBM_QS_ENDPOINT",
             "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
            {"name": "fez_QRMI_IBM_QS_IAM_ENDPOINT", "value": "https://iam.example"},
            {"name": "QRMI_AB_FELIS_BASE_ENDPOINT", "value": "https://felis.example"},
        ]);
        let names: Vec<_> = found(&env).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["iqm-server/garnet", "ibm-quantum-system/fez", "alice-bob-felis/"]);
    }

    #[test]
    fn lists_name_what_an_env_from_hides() {
        let env = json!([
            {"name": "QRMI_JOB_QPU_RESOURCES", "value": "garnet, EMU_FREE,old"},
            {"name": "QRMI_JOB_QPU_TYPES",
             "value": "iqm-server,pasqal-cloud,qiskit-runtime-service"},
        ]);
        let expected = [
            ("iqm-server/garnet", "garnet_QRMI_IQM_ISA_ENDPOINT"),
            ("pasqal-cloud/EMU_FREE", "EMU_FREE_QRMI_PASQAL_CLOUD_BASE_URL"),
            ("ibm-quantum-compute-service/old", "old_QRMI_IBM_QRS_ENDPOINT"),
        ];
        let expected =
            expected.map(|(name, variable)| (name.to_owned(), vec![variable.to_owned()]));
        assert_eq!(found(&env), expected);
    }

    #[test]
    fn what_cannot_be_followed_or_read_is_worth_a_word() {
        for (env, expected) in [
            (
                json!([
                    {"name": "SLURM_JOB_QPU_RESOURCES", "value": "a:b"},
                    {"name": "SLURM_JOB_QPU_TYPES", "value": "pasqal-local:oqtopus"},
                    {"name": "QRMI_LIST_DELIMITER", "value": ":"},
                ]),
                vec!["\"a\" of type pasqal-local is not", "\"b\" of type oqtopus is not"],
            ),
            (
                json!([{"name": "f_QRMI_WARDEN_URL", "value": "http://warden"}]),
                vec!["\"f\" of type pasqal-local is not"],
            ),
            (
                json!([
                    {"name": "QRMI_JOB_QPU_RESOURCES", "value": "a,a"},
                    {"name": "QRMI_JOB_QPU_TYPES", "value": "iqm-server,dream"},
                ]),
                vec!["\"a\" is listed twice", "unknown type \"dream\"; followed are ibm-quantum"],
            ),
            (
                json!([
                    {"name": "QRMI_JOB_QPU_RESOURCES", "value": "a,b"},
                    {"name": "QRMI_JOB_QPU_TYPES", "value": "iqm-server"},
                ]),
                vec!["names 2 resources, QRMI_JOB_QPU_TYPES 1 types"],
            ),
            (
                json!([{"name": "a_QRMI_IQM_ISA_ENDPOINT", "value": ""}]),
                vec!["a_QRMI_IQM_ISA_ENDPOINT is no URL"],
            ),
            (json!([{"name": "QISKIT_IBM_TOKEN", "value": "t"}]), vec!["qiskit-ibm-runtime"]),
            (json!([{"name": "a_QRMI_IQM_ISA_ENDPOINT", "value": "http://$(HOST)"}]), vec![]),
            (json!([]), vec![]),
        ] {
            let remarks = remarks(&mk_container(&env));
            let texts: Vec<_> = remarks.iter().map(ToString::to_string).collect();
            assert_eq!(texts.len(), expected.len(), "{texts:?}");
            for (text, part) in texts.iter().zip(expected) {
                assert!(text.contains(part), "{text}");
            }
        }
    }

    #[test]
    fn names_are_encoded_in_paths() {
        let resource = Resource { service: Service::AliceBobFelis, name: "EMU:1Q/x y".to_owned() };
        let expected = "http://127.0.0.1:8731/alice-bob-felis/EMU%3A1Q%2Fx%20y";
        assert_eq!(url(&resource, false), expected);
        assert_eq!(url(&resource, true), "http://127.0.0.1:8731");
    }

    #[test]
    fn a_second_program_is_served_where_it_has_what_the_first_one_has() {
        let endpoint = |name: &str, url: &str| json!([{"name": format!("{name}_QRMI_IQM_ISA_ENDPOINT"), "value": url}]);
        let (near, far) = ("https://near.example", "https://far.example");
        let served = |first: &serde_json::Value, second: &serde_json::Value| {
            split(&mk_container(second), &mk_container(first)).0.len()
        };
        let garnet = endpoint("garnet", near);
        assert_eq!(served(&garnet, &garnet), 1);
        assert_eq!(served(&garnet, &endpoint("garnet", far)), 0, "its token is not for the first");
        assert_eq!(served(&garnet, &endpoint("emerald", near)), 0);
        assert_eq!(served(&json!([]), &garnet), 0);
        let hidden = json!([
            {"name": "QRMI_JOB_QPU_RESOURCES", "value": "garnet"},
            {"name": "QRMI_JOB_QPU_TYPES", "value": "iqm-server"},
        ]);
        assert_eq!(served(&hidden, &hidden), 1);
        assert_eq!(served(&hidden, &garnet), 0);
    }
}
