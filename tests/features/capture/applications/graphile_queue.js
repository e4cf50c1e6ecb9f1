// Graphile Worker, a job queue for Node: its tables, its runner, and clients that add jobs.
// node graphile_queue.js prepare|load CONNINFO CLIENTS; the load ends with the standard input.
const { runMigrations, run, makeWorkerUtils, Logger } = require("graphile-worker");
const { pool, untilEnd, several } = require("./node_load");

const logger = new Logger(() => () => {});
const tasks = {
  mail: async (payload) => { if (payload.number % 13 === 0) throw new Error("try again"); },
  sum: async () => {},
};

async function add(utils) {
  const choice = Math.random(), number = Math.floor(1000 * Math.random());
  if (choice < 0.5) await utils.addJob("mail", { number, words: "hello ".repeat(5) });
  else if (choice < 0.7) await utils.addJob("sum", { number }, { queueName: `q${number % 20}` });
  else if (choice < 0.9) await utils.addJob("sum", { number }, { jobKey: `key ${number}`, priority: number % 5 });
  else if (choice < 0.95) {
    const job = await utils.addJob("mail", { number: 1 }, { runAt: new Date(Date.now() + 3600e3) });
    await utils.completeJobs([job.id]);
  } else await utils.addJobs([1, 2, 3].map((n) => ({ identifier: "mail", payload: { number: n } })));
}

async function main([verb, place, clients]) {
  const pgPool = pool(place, 10);
  if (verb === "prepare") await runMigrations({ pgPool, logger });
  else {
    const utils = await makeWorkerUtils({ pgPool, logger });
    const runner = await run({ pgPool, logger, taskList: tasks, concurrency: 4, pollInterval: 500, noHandleSignals: true });
    await several(Number(clients), 5, () => add(utils), untilEnd());
    await runner.stop();
    await utils.release();
  }
  await pgPool.end();
}
main(process.argv.slice(2)).then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
