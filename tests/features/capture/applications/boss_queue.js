// pg-boss, a job queue for Node: its tables, its workers and its maintenance.
// node boss_queue.js prepare|load CONNINFO CLIENTS; the load ends with the standard input.
const PgBoss = require("pg-boss");
const { settings, untilEnd, several } = require("./node_load");

async function send(boss) {
  const choice = Math.random(), number = Math.floor(1000 * Math.random());
  if (choice < 0.5) await boss.send("mail", { number, words: "hello ".repeat(5) });
  else if (choice < 0.7) await boss.send("sum", { number }, { singletonKey: `key ${number}`, priority: number % 5 });
  else if (choice < 0.8) await boss.send("mail", { number }, { startAfter: 3600 });
  else if (choice < 0.9) await boss.insert([1, 2, 3].map((n) => ({ name: "sum", data: { n } })));
  else if (choice < 0.95) await boss.cancel("mail", await boss.send("mail", { number }, { startAfter: 60 }));
  else await boss.getQueueSize("mail");
}

async function main([verb, place, clients]) {
  const boss = new PgBoss({ ...settings(place), max: 8 });
  boss.on("error", () => {});
  await boss.start();
  if (verb === "prepare") {
    await boss.createQueue("mail", { retryLimit: 2 });
    await boss.createQueue("sum", { policy: "short" });
  } else {
    const work = async (jobs) => { if (jobs.some((job) => job.data.number % 13 === 0)) throw new Error("again"); };
    await boss.work("mail", { batchSize: 3, pollingIntervalSeconds: 0.5 }, work);
    await boss.work("sum", { batchSize: 1, pollingIntervalSeconds: 0.5 }, work);
    await several(Number(clients), 10, () => send(boss), untilEnd());
  }
  await boss.stop({ graceful: false });
}
main(process.argv.slice(2)).then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
