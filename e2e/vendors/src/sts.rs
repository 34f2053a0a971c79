//! AWS Security Token Service as far as SDKs need it.

use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use crate::braket::api::values;
use crate::error::{ApiError, escape};
use crate::identity::{Principal, Principals};

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

/// `AssumeRoleWithWebIdentity`: makes temporary credentials for a role of a known account. Any
/// token that is not empty is accepted: the emulator has no identity provider to ask.
///
/// # Errors
/// `ValidationError` for a missing part, `AccessDenied` for a role of an unknown account.
pub fn assume_role_with_web_identity(
    principals: &mut Principals,
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
    part("WebIdentityToken")?;
    let seconds = part("DurationSeconds").ok().and_then(|text| text.parse().ok());
    let seconds: i64 = seconds.unwrap_or(3_600).clamp(900, 43_200);
    let pieces: Vec<_> = role.split(':').collect();
    let ["arn", "aws", "iam", "", account, path] = pieces[..] else {
        return Err(ApiError::new("ValidationError", format!("{role} is not the ARN of a role")));
    };
    if !principals.knows_account(account) {
        let text = "Not authorized to perform sts:AssumeRoleWithWebIdentity";
        return Err(ApiError::new("AccessDenied", text));
    }
    let name = path.trim_start_matches("role/");
    let random = || Uuid::new_v4().simple().to_string();
    let (key, secret, token) =
        (format!("ASIA{}", &random().to_uppercase()[..16]), random(), random());
    let end = now + SignedDuration::from_secs(seconds);
    let arn = format!("arn:aws:sts::{account}:assumed-role/{name}/{session}");
    let mut principal = Principal::user(&key, &secret, account, "").with_session(&token, Some(end));
    principal.name = format!("assumed-role/{name}/{session}");
    principals.insert(principal);
    let (arn, session) = (escape(&arn), escape(&session));
    Ok(format!(
        "<AssumeRoleWithWebIdentityResponse xmlns=\"{XMLNS}\"><AssumeRoleWithWebIdentityResult>\
         <Credentials><AccessKeyId>{key}</AccessKeyId><SecretAccessKey>{secret}</SecretAccessKey>\
         <SessionToken>{token}</SessionToken><Expiration>{end:.0}</Expiration></Credentials>\
         <AssumedRoleUser><Arn>{arn}</Arn><AssumedRoleId>AROA:{session}</AssumedRoleId>\
         </AssumedRoleUser></AssumeRoleWithWebIdentityResult><ResponseMetadata>\
         <RequestId>{request_id}</RequestId></ResponseMetadata>\
         </AssumeRoleWithWebIdentityResponse>"
    ))
}
