//! Calls that the sidecar makes itself, as values.

use std::fmt;
use std::time::Duration;

use http::Method;
use secrecy::SecretString;

/// One call below the endpoint of a resource. None of them needs a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The method.
    pub method: Method,
    /// Path below the endpoint, with the query.
    pub path: String,
}

impl Call {
    /// This call.
    #[must_use]
    pub fn new(method: Method, path: impl Into<String>) -> Self {
        Self { method, path: path.into() }
    }
}

/// How a program of this resource gets its right, as far as the environment tells.
pub enum SignIn {
    /// The environment holds no credentials.
    Nothing {
        /// The variables that would, for people; without the prefix of the resource.
        wanted: &'static str,
    },
    /// The same headers for every call.
    Fixed(Vec<(&'static str, SecretString)>),
    /// A token has to be bought.
    Token(TokenCall),
}

/// How a token is bought.
pub struct TokenCall {
    /// The whole address.
    pub url: String,
    /// The form, or the JSON object, that is sent.
    pub fields: Vec<(&'static str, SecretString)>,
    /// Whether the fields are sent as JSON instead of as a form.
    pub json: bool,
    /// Headers that go with the token in every call.
    pub beside: Vec<(&'static str, SecretString)>,
}

/// A token that was bought.
pub struct Token {
    /// The bearer token.
    pub text: SecretString,
    /// How long it holds, if the vendor says so.
    pub lifetime: Option<Duration>,
}

impl fmt::Debug for SignIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing { .. } => "Nothing",
            Self::Fixed(_) => "Fixed",
            Self::Token(_) => "Token",
        })
    }
}
