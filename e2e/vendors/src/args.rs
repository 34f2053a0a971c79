//! The command line of the emulator.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context;
use clap::{Parser, ValueEnum};

use crate::config::Config;
use crate::queue::Mode;

/// Emulates Amazon Braket, with as much of S3 and STS as its SDK needs.
#[derive(Debug, Parser)]
#[command(name = "sluice-vendors", version)]
pub struct VendorsArgs {
    /// Address of the vendor port (Braket, S3 and STS).
    #[arg(long, env = "SLUICE_VENDORS_LISTEN", default_value = "127.0.0.1:4570")]
    listen: SocketAddr,
    /// Address of the control API. Whoever reaches it steers the emulator.
    #[arg(long, env = "SLUICE_VENDORS_CONTROL", default_value = "127.0.0.1:4571")]
    control: SocketAddr,
    /// Python interpreter that has the packages of amazon-braket-sdk.
    #[arg(long, env = "SLUICE_PYTHON", default_value = "python3")]
    python: PathBuf,
    /// Python interpreter that has the packages of qiskit-ibm-runtime; without one, jobs of that
    /// client fail when they run.
    #[arg(long, env = "SLUICE_QISKIT_PYTHON")]
    qiskit_python: Option<PathBuf>,
    /// A JSON file with principals, devices and quotas; flags and their variables go before it.
    #[arg(long, env = "SLUICE_VENDORS_CONFIG")]
    config: Option<PathBuf>,
    /// Factor on every request quota; 0 switches quotas off.
    #[arg(long, env = "SLUICE_VENDORS_QUOTA_SCALE")]
    quota_scale: Option<f64>,
    /// What moves the lines of all devices.
    #[arg(long, env = "SLUICE_VENDORS_MODE")]
    mode: Option<ModeArg>,
    /// Milliseconds between two moves of a QPU's line.
    #[arg(long, env = "SLUICE_VENDORS_STEP_MS")]
    step_ms: Option<u64>,
    /// Milliseconds that a task runs on a QPU at least.
    #[arg(long, env = "SLUICE_VENDORS_RUNNING_MS")]
    running_ms: Option<u64>,
    /// Foreign places before a new task of a QPU.
    #[arg(long, env = "SLUICE_VENDORS_AHEAD")]
    ahead: Option<u64>,
    /// Keep whole answers in the journal.
    #[arg(long, env = "SLUICE_VENDORS_RECORD")]
    record: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ModeArg {
    Auto,
    Manual,
}

impl VendorsArgs {
    /// Reads the file, if one is named, and lays the flags over it.
    ///
    /// # Errors
    /// A file that cannot be read or understood.
    pub fn config(self) -> anyhow::Result<Config> {
        let mut config = match &self.config {
            None => Config::default(),
            Some(path) => {
                let text = std::fs::read_to_string(path)
                    .with_context(|| format!("cannot read the configuration {}", path.display()))?;
                serde_json::from_str(&text)
                    .with_context(|| format!("correct the configuration {}", path.display()))?
            }
        };
        config.listen = self.listen;
        config.control = self.control;
        config.python = self.python;
        config.qiskit_python = self.qiskit_python.or(config.qiskit_python);
        config.quota_scale = self.quota_scale.unwrap_or(config.quota_scale);
        config.record_answers |= self.record;
        for device in &mut config.devices {
            match self.mode {
                Some(ModeArg::Auto) => device.pace.mode = Mode::Auto,
                Some(ModeArg::Manual) => device.pace.mode = Mode::Manual,
                None => {}
            }
            if device.kind == crate::braket::device::Kind::Qpu {
                device.pace.step_ms = self.step_ms.unwrap_or(device.pace.step_ms);
                device.pace.running_ms = self.running_ms.unwrap_or(device.pace.running_ms);
                device.ahead.normal = self.ahead.unwrap_or(device.ahead.normal);
            }
        }
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn config(flags: &[&str]) -> anyhow::Result<Config> {
        VendorsArgs::try_parse_from(["sluice-vendors"].iter().chain(flags))?.config()
    }

    #[test]
    fn flags_lie_over_the_file() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let text = r#"{"quotaScale": 0.5, "journal": 7, "principals": [{"accessKeyId": "K",
            "secretAccessKey": "s", "account": "111122223333", "name": "user/u"}]}"#;
        file.write_all(text.as_bytes()).unwrap();
        let path = file.path().to_str().unwrap();
        let config = config(&["--config", path, "--quota-scale", "2", "--ahead", "9"]).unwrap();
        assert_eq!((config.quota_scale, config.journal), (2.0, 7));
        assert_eq!(config.principals[0].arn(), "arn:aws:iam::111122223333:user/u");
        let ahead: Vec<_> = config.devices.iter().map(|device| device.ahead.normal).collect();
        assert_eq!(ahead, [0, 0, 9, 9, 9, 9], "simulators keep their own");
    }

    #[test]
    fn a_misspelled_field_is_named() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(br#"{"quotaScala": 1}"#).unwrap();
        let error = config(&["--config", file.path().to_str().unwrap()]).unwrap_err();
        assert!(format!("{error:#}").contains("quotaScala"), "{error:#}");
    }
}
