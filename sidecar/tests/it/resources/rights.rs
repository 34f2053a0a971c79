//! With whose right the sidecar asks, and where: keys, tokens, endpoints.

use serde_json::Value;

use super::scene::{COMPUTE, IQM, PASQAL, Scene, TEAM, as_it_is};
use crate::await_some;

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_token_is_told_and_the_gates_stay_shut_until_it_is_renewed() {
    let scene = Scene::start(COMPUTE, 2).await;
    let sidecar = scene.sidecar(as_it_is).await;
    scene.submit(&sidecar).await;
    scene.task("the task waits", |task| task.state == "QUEUED").await;
    // Tokens end before their time: another one is bought, nobody has to do anything.
    scene.vendor.end_tokens();
    scene.step(3).await;
    scene.order().await;
    sidecar.end().await;

    let scene = Scene::start(IQM, 2).await;
    let wrong = |key: &str, value: String| {
        Some(if key.ends_with("_TOKEN") { "wrong-key".to_owned() } else { value })
    };
    let sidecar = scene.sidecar(wrong).await;
    scene.submit(&sidecar).await;
    let problem = await_some("the problem", async || scene.cluster.vendor()?.problem).await;
    assert!(problem.contains("iqm-server/garnet refuses the credentials"), "{problem}");
    assert!(problem.contains("the gates stay shut"), "{problem}");
    scene.step(2).await;
    assert!(!scene.ordered());
    let (_, log) = sidecar.end().await;
    assert!(!log.contains("wrong-key"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_the_token_service_refuses_is_named_and_never_shown() {
    let scene = Scene::start(COMPUTE, 2).await;
    let wrong = |key: &str, value: String| {
        Some(if key.ends_with("_APIKEY") { "sekrit-key".to_owned() } else { value })
    };
    let sidecar = scene.sidecar(wrong).await;
    scene.submit(&sidecar).await;
    let problem = await_some("the problem", async || scene.cluster.vendor()?.problem).await;
    assert!(problem.contains("the token service of ibm-quantum-compute-service"), "{problem}");
    scene.step(3).await;
    assert!(!scene.ordered(), "{problem}");
    let (_, log) = sidecar.end().await;
    assert!(!log.contains("sekrit"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_of_pasqal_signs_in_with_name_and_password() {
    let scene = Scene::start(PASQAL, 2).await;
    let without_client = |key: &str, value: String| (!key.contains("_CLIENT_")).then_some(value);
    let user = [("PASQAL_USERNAME", TEAM.0), ("PASQAL_PASSWORD", TEAM.1)];
    let sidecar = scene.sidecar_with(without_client, &user).await;
    scene.submit(&sidecar).await;
    scene.step(3).await;
    scene.order().await;
    let own = |operation: &str| {
        let journal = scene.vendor.journal();
        journal.iter().any(|entry| {
            entry.operation == operation && entry.user_agent.starts_with("sluice-sidecar/")
        })
    };
    assert!(own("pasqal:GetToken") && own("pasqal:GetBatch"), "{:#?}", scene.vendor.counts());
    let (_, log) = sidecar.end().await;
    assert!(!log.contains(TEAM.1), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_bought_once_and_not_at_every_look() {
    let scene = Scene::start(PASQAL, 2).await;
    let sidecar = scene.sidecar(as_it_is).await;
    for _ in 0..3 {
        scene.submit(&sidecar).await;
    }
    let bought = || {
        let count = |entry: &&sluice_vendors::Entry| entry.operation == "pasqal:GetToken";
        scene.vendor.journal().iter().filter(count).count()
    };
    let own = bought();
    let looks = || {
        let count = |entry: &&sluice_vendors::Entry| entry.operation == "pasqal:GetBatch";
        scene.vendor.journal().iter().filter(count).count()
    };
    await_some("many looks", async || (looks() >= 6).then_some(())).await;
    // The program buys one for each request of this test; the sidecar one for all of its looks.
    assert!(bought() <= own + 1, "{} tokens for {} looks", bought() - own, looks());
    scene.vendor.end_tokens();
    let before = bought();
    scene.step(3).await;
    scene.order().await;
    assert!(bought() - before <= 2, "{} tokens after the loss", bought() - before);
    sidecar.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_environment_without_credentials_uses_the_programs_own() {
    let scene = Scene::start(IQM, 2).await;
    let without = |key: &str, value: String| (!key.ends_with("_TOKEN")).then_some(value);
    let sidecar = scene.sidecar(without).await;
    let id = scene.submit(&sidecar).await;
    scene.task("its place", |task| task.position.as_deref() == Some("3")).await;
    scene.step(2).await;
    assert_eq!(scene.order().await.task_id, id);
    sidecar.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_points_nowhere_is_answered_with_what_is_wrong() {
    let scene = Scene::start(IQM, 2).await;
    let nowhere = |key: &str, value: String| {
        Some(if key.ends_with("_ISA_ENDPOINT") { "nowhere".to_owned() } else { value })
    };
    let sidecar = scene.sidecar(nowhere).await;
    let (path, body) = (IQM.submit)();
    let answer = scene.send(&sidecar, path, &body).await;
    assert_eq!(answer.status().as_u16(), 502);
    let answer: Value = answer.json().await.unwrap();
    let message = answer["message"].as_str().unwrap();
    assert!(message.contains("garnet_QRMI_IQM_ISA_ENDPOINT"), "{message}");
    let url = format!("{}/iqm-server/emerald/api/v1/jobs/x", sidecar.tap_url());
    let other = scene.http.get(url).send().await.unwrap();
    assert_eq!(other.status().as_u16(), 404);
    let text = other.text().await.unwrap();
    assert!(text.contains("it has: iqm-server/garnet"), "{text}");
    let (_, log) = sidecar.end().await;
    assert!(log.contains("garnet_QRMI_IQM_ISA_ENDPOINT"), "{log}");
}
