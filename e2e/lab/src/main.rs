//! The program `lab`.
fn main() -> anyhow::Result<()> {
    match std::env::args().nth(1).as_deref() {
        Some("build") => drop(sluice_lab::build(&sluice_lab::V1_36)?),
        _ => eprintln!("{}", sluice_lab::python_env()?.python().display()),
    }
    Ok(())
}
