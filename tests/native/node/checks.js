/* node-zookeeper-client (JavaScript) on the servers of SERVERS; CONTROL kills one (servers.py). */
"use strict";
const assert = require("node:assert");
const net = require("node:net");
const { promisify } = require("node:util");
const zookeeper = require("node-zookeeper-client");

const WAIT_MS = 30000;
const POLL_MS = 20;

function client() {
  const made = zookeeper.createClient(process.env.SERVERS, { sessionTimeout: 15000, retries: 10 });
  for (const name of ["create", "remove", "exists", "getChildren", "getACL", "setACL", "getData", "setData", "mkdirp"]) {
    made[`${name}Async`] = (...args) =>
      new Promise((resolve, reject) =>
        made[name](...args, (error, ...results) => (error ? reject(error) : resolve(results))),
      );
  }
  return made;
}

async function until(condition, what) {
  const end = Date.now() + WAIT_MS;
  while (!condition()) {
    assert(Date.now() < end, `not in time: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

async function connected(made) {
  const ready = new Promise((resolve) => made.once("connected", resolve));
  made.connect();
  await ready;
  return made;
}

function code(name) {
  return (error) => error.getCode?.() === zookeeper.Exception[name];
}

function kill(port) {
  return new Promise((resolve, reject) => {
    const socket = net.connect(Number(process.env.CONTROL), "127.0.0.1", () => socket.write(`kill ${port}\n`));
    socket.once("data", resolve);
    socket.once("error", reject);
  });
}

async function operations(zk) {
  await zk.createAsync("/node", Buffer.from("1"));
  await assert.rejects(zk.createAsync("/node"), code("NODE_EXISTS"));
  const [made] = await zk.createAsync("/node/s-", null, zookeeper.CreateMode.EPHEMERAL_SEQUENTIAL);
  assert.equal(made, "/node/s-0000000000");
  await zk.mkdirpAsync("/node/a/b/c");
  const [data, stat] = await zk.getDataAsync("/node");
  assert.deepEqual([data.toString(), stat.version, stat.numChildren], ["1", 0, 2]);
  const [set] = await zk.setDataAsync("/node", Buffer.from("2"), 0);
  assert.equal(set.version, 1);
  await assert.rejects(zk.setDataAsync("/node", Buffer.from("2"), 0), code("BAD_VERSION"));
  await assert.rejects(zk.removeAsync("/node"), code("NOT_EMPTY"));
  assert.equal((await zk.existsAsync("/node/none"))[0] ?? null, null);
  assert.deepEqual((await zk.getChildrenAsync("/node"))[0].sort(), ["a", "s-0000000000"]);
  assert.equal((await zk.getACLAsync("/node"))[0].length, 1);
}

async function transactions(zk) {
  const good = zk.transaction().create("/node/t").setData("/node/t", Buffer.from("x")).check("/node/t", 1);
  await promisify(good.commit.bind(good))();
  const bad = zk.transaction().remove("/node/t").check("/node", 77);
  await assert.rejects(promisify(bad.commit.bind(bad))(), code("BAD_VERSION"));
  assert((await zk.existsAsync("/node/t"))[0]);
}

async function watches(zk) {
  const seen = [];
  const watch = (event) => seen.push(`${event.getName()} ${event.getPath()}`);
  await zk.existsAsync("/node/w", watch);
  await zk.createAsync("/node/w");
  await zk.getDataAsync("/node/w", watch);
  await zk.setDataAsync("/node/w", Buffer.from("x"));
  await zk.getChildrenAsync("/node/w", watch);
  await zk.createAsync("/node/w/c");
  await until(() => seen.length === 3, "three events");
  assert.deepEqual(seen, ["NODE_CREATED /node/w", "NODE_DATA_CHANGED /node/w", "NODE_CHILDREN_CHANGED /node/w"]);
}

async function kills(zk) {
  const session = zk.getSessionId().toString("hex");
  for (let n = 0; n < 3; n++) {
    const port = zk.connectionManager.socket.remotePort;
    const seen = [];
    await zk.getDataAsync("/node/w", (event) => seen.push(event));
    const back = new Promise((resolve) => zk.once("connected", resolve));
    await kill(port);
    await back;
    await zk.setDataAsync("/node/w", Buffer.from(`${n}`));
    await until(() => seen.length > 0, "the watch works after the reconnect");
    assert.equal(zk.getSessionId().toString("hex"), session);
    assert((await zk.existsAsync("/node/s-0000000000"))[0], "the ephemeral is gone");
  }
}

async function main() {
  const zk = await connected(client());
  for (const check of [operations, transactions, watches, kills]) {
    await check(zk);
    console.log(`ok ${check.name}`);
  }
  zk.close();
  await new Promise((resolve) => zk.once("disconnected", resolve));
}

setTimeout(() => assert.fail("not in time"), 4 * WAIT_MS).unref();
main().then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
