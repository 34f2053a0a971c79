//! AWS Security Token Service as far as SDKs need it.

use jiff::Timestamp;
use secrecy::ExposeSecret;

use crate::braket::api::values;
use crate::error::{ApiError, escape};
use crate::identity::{Principal, Principals};
use crate::sessions::{self, Session};

/// The action that needs no signature: the token is the proof.
pub(crate) const WITH_WEB_IDENTITY: &str = "AssumeRoleWithWebIdentity";
const XMLNS: &str = "https://sts.amazonaws.com/doc/2011-06-15/";

/// The action that a form names.
#[must_use]
pub fn action(form: &str) -> Option<String> {
    values(form, "Action").into_iter().next()
}

/// The answer of `GetCallerIdentity`.
#[must_use]
pub fn caller_identity(principal: &Principal, request_id: &str) -> String {
    let (arn, account) = (escape(&principal.arn()), escape(&principal.account));
    let user = escape(&principal.access_key_id.replacen("AKID", "AIDA", 1));
    format!(
        "<GetCallerIdentityResponse xmlns=\"{XMLNS}\"><GetCallerIdentityResult><Arn>{arn}</Arn>\
         <UserId>{user}</UserId><Account>{account}</Account></GetCallerIdentityResult>\
         <ResponseMetadata><RequestId>{request_id}</RequestId></ResponseMetadata>\
         </GetCallerIdentityResponse>"
    )
}

/// `AssumeRole` and `AssumeRoleWithWebIdentity`: makes temporary credentials for a role of a known
/// account. Any web identity token that is not empty is accepted: the emulator has no identity
/// provider to ask.
///
/// # Errors
/// `ValidationError` for a missing part, `AccessDenied` for a role of an unknown account.
pub fn assume_role(
    principals: &mut Principals,
    action: &str,
    form: &str,
    request_id: &str,
    now: Timestamp,
) -> Result<String, ApiError> {
    let part = |name: &str| {
        values(form, name)
            .into_iter()
            .next()
            .filter(|value| !value.is_empty())
            .ok_or_else(|| ApiError::new("ValidationError", format!("{name} is missing")))
    };
    let (role, session) = (part("RoleArn")?, part("RoleSessionName")?);
    if action == WITH_WEB_IDENTITY {
        part("WebIdentityToken")?;
    }
    let seconds = part("DurationSeconds").ok().and_then(|text| text.parse().ok());
    let seconds: i64 = seconds.unwrap_or(3_600).clamp(900, 43_200);
    let pieces: Vec<_> = role.split(':').collect();
    let ["arn", "aws", "iam", "", account, path] = pieces[..] else {
        return Err(ApiError::new("ValidationError", format!("{role} is not the ARN of a role")));
    };
    if !principals.knows_account(account) {
        let text = format!("Not authorized to perform sts:{action}");
        return Err(ApiError::new("AccessDenied", text));
    }
    let name = path.trim_start_matches("role/");
    let made = sessions::make(principals, (account, name, &session), seconds, now);
    let arn = format!("arn:aws:sts::{account}:assumed-role/{name}/{session}");
    let (arn, session) = (escape(&arn), escape(&session));
    let Session { key, end, .. } = &made;
    let (secret, token) = (made.secret.expose_secret(), made.token.expose_secret());
    Ok(format!(
        "<{action}Response xmlns=\"{XMLNS}\"><{action}Result>\
         <Credentials><AccessKeyId>{key}</AccessKeyId><SecretAccessKey>{secret}</SecretAccessKey>\
         <SessionToken>{token}</SessionToken><Expiration>{end:.0}</Expiration></Credentials>\
         <AssumedRoleUser><Arn>{arn}</Arn><AssumedRoleId>AROA:{session}</AssumedRoleId>\
         </AssumedRoleUser></{action}Result><ResponseMetadata>\
         <RequestId>{request_id}</RequestId></ResponseMetadata>\
         </{action}Response>"
    ))
}
