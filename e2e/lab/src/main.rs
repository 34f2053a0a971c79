//! The program `lab`.
#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match std::env::args().nth(1).as_deref() {
        Some("build") => drop(sluice_lab::build(&sluice_lab::V1_36)?),
        Some("up") => drop(
            sluice_lab::Lab::up(sluice_lab::Options { detached: true, ..Default::default() })
                .await?,
        ),
        Some("down") => sluice_lab::down(None).await?,
        _ => eprintln!("{}", sluice_lab::python_env()?.python().display()),
    }
    Ok(())
}
