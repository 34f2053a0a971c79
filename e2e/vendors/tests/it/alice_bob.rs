//! Alice & Bob's own client, qiskit-alice-bob-provider.

use sluice_vendors::{Running, Service};

use crate::caller::{Caller, interpreter};

/// A process that uses the client with the key of the account `team`, right or wrong.
pub(crate) fn alice(vendor: &Running, key: &str) -> Caller {
    let account = vendor.qrmi_environment(Service::Felis, "felis", "team", key);
    // The client asks the registry for a newer version of itself; there is none to ask.
    let proxies = [("HTTPS_PROXY", "http://127.0.0.1:9"), ("NO_PROXY", "127.0.0.1")];
    let proxies = proxies.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Caller::start(interpreter(), "alice_bob_calls.py", account.into_iter().chain(proxies))
}
