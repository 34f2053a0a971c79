// The AWS SDK for JavaScript: submits and polls, once in each environment.
const { readFileSync } = require("node:fs");
const path = require("node:path");
const {
  BraketClient,
  CreateQuantumTaskCommand,
  GetQuantumTaskCommand,
} = require("@aws-sdk/client-braket");

const packages = path.join(process.env.NODE_PATH, "@aws-sdk/client-braket/package.json");

async function submit() {
  const client = new BraketClient({});
  const { quantumTaskArn } = await client.send(
    new CreateQuantumTaskCommand({
      deviceArn: "arn:aws:braket:::device/quantum-simulator/amazon/sv1",
      outputS3Bucket: "amazon-braket-x",
      outputS3KeyPrefix: "judges",
      shots: 10,
      action: JSON.stringify({
        braketSchemaHeader: { name: "braket.ir.openqasm.program", version: "1" },
        source: "OPENQASM 3.0; bit[1] b; qubit[1] q; h q[0]; b[0] = measure q[0];",
        inputs: {},
      }),
    }),
  );
  for (;;) {
    const seen = await client.send(new GetQuantumTaskCommand({ quantumTaskArn }));
    if (["COMPLETED", "FAILED", "CANCELLED"].includes(seen.status)) {
      return { task: quantumTaskArn };
    }
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

async function main() {
  const turns = [];
  for (const turn of JSON.parse(readFileSync(0, "utf8"))) {
    for (const [name, value] of Object.entries(turn)) {
      if (value === null) delete process.env[name];
      else process.env[name] = value;
    }
    try {
      turns.push(await submit());
    } catch (error) {
      console.error(error);
      turns.push({ error: error.name, message: String(error) });
    }
  }
  const { version } = JSON.parse(readFileSync(packages, "utf8"));
  console.log(JSON.stringify({ versions: { "@aws-sdk/client-braket": version }, turns }));
}

main();
