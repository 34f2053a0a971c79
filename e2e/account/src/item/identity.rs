//! Whose request is it: what the tap lets pass, and what the vendor makes of it.

use aws_sdk_braket::Client;
use aws_sdk_braket::error::SdkError;
use aws_sdk_braket::operation::get_device::GetDeviceError;

use super::{finding, refusal};
use crate::program::{Program, SV1};
use crate::report::{Finding, Verdict};

/// The vendor takes a request that the tap has signed again.
pub(super) async fn signed_again(program: &Program) -> Finding {
    let question = "The vendor takes requests that the tap has signed again";
    let (direct, tapped) = (status(&program.direct()).await, status(&program.tapped(None)).await);
    match (direct, tapped) {
        (Ok(direct), Ok(tapped)) if direct == tapped => {
            finding(question, Verdict::Expected, vec![format!("SV1 is {tapped} both ways")])
        }
        (Ok(direct), Ok(tapped)) => {
            // It may have changed between the two questions, so nothing is proved.
            let seen = format!("SV1 is {direct} asked directly and {tapped} through the tap");
            finding(question, Verdict::Unseen, vec![seen])
        }
        (Ok(_), Err(error)) => {
            let seen = format!("directly it is taken, through the tap not: {}", refusal(&error));
            finding(question, Verdict::Differs, vec![seen])
        }
        (Err(error), _) => {
            let seen = format!("GetDevice is refused without the tap too: {}", refusal(&error));
            finding(question, Verdict::Unseen, vec![seen])
        }
    }
}

/// A program with another secret gets nothing through the tap.
pub(super) async fn impostor(program: &Program) -> Finding {
    let question = "A program with another secret is refused by the tap, and by the vendor";
    let clients = (program.impostor(true).await, program.impostor(false).await);
    let (Ok(tapped), Ok(direct)) = clients else {
        return finding(question, Verdict::Unseen, vec!["there are no keys to try with".into()]);
    };
    let answers = [("tap", status(&tapped).await), ("vendor", status(&direct).await)];
    let mut seen = Vec::new();
    let mut verdict = Verdict::Expected;
    for (who, answer) in answers {
        match answer {
            Err(error) if error.as_service_error().is_some() => {
                seen.push(format!("the {who} says {}", refusal(&error)));
            }
            Err(error) => {
                verdict = Verdict::Unseen;
                seen.push(refusal(&error));
            }
            Ok(_) => {
                verdict = Verdict::Differs;
                seen.push(format!("the {who} let it pass"));
                break;
            }
        }
    }
    finding(question, verdict, seen)
}

async fn status(client: &Client) -> Result<String, SdkError<GetDeviceError>> {
    let device = client.get_device().device_arn(SV1).send().await?;
    Ok(device.device_status.as_str().to_owned())
}
