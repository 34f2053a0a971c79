//! What the checks cost, said before anything is submitted.

use anyhow::{Result, bail};
use sluice_shared::price::{AS_OF, Estimate, Usd, estimate};
use sluice_shared::task::device_name;

use crate::args::Args;
use crate::program::SV1;

/// Tasks that are submitted to the simulator.
const ON_SIMULATOR: u64 = 2;
/// The vendor charges a simulator's task for at least so many seconds.
const LEAST_SECONDS: u64 = 3;

/// What will be submitted and what it costs by the catalogue.
///
/// # Errors
/// When the QPU has no price in the catalogue: nobody could agree to it.
pub(crate) fn notice(args: &Args) -> Result<String> {
    let Estimate::Minute(minute) = estimate(SV1, None) else {
        bail!("the catalogue has no price for SV1");
    };
    let seconds = ON_SIMULATOR * LEAST_SECONDS;
    // A minute's price divides by sixty only roughly; a millionth more or less does not matter.
    let simulator = Usd::from_micros(minute.micros() * seconds / 60);
    let mut lines = vec![format!(
        "{ON_SIMULATOR} small tasks on SV1 in {}: about {simulator} ({minute} a minute, at least \
         {LEAST_SECONDS} s a task)",
        args.region
    )];
    if let Some(qpu) = &args.qpu {
        let name = device_name(qpu);
        let Estimate::Fixed(price) = estimate(qpu, Some(args.shots.into())) else {
            bail!(
                "the catalogue has no price for {qpu}, so it is not submitted to; choose another \
                 device, or leave --qpu out"
            );
        };
        lines.push(format!(
            "1 task of {} shots on {name}: {price} if it runs; it is cancelled after {} min if it \
             still waits",
            args.shots, args.watch
        ));
    }
    lines.push(format!(
        "List prices as of {AS_OF}; the vendor's price list decides. Results go to s3://{}/{}",
        args.bucket,
        crate::program::PREFIX
    ));
    Ok(lines.join("\n"))
}
