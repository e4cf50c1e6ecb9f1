// What the applications for Node share: a pool, and clients that act until the input ends.
const { Pool } = require("pg");

function settings(place) {
  const given = Object.fromEntries(place.split(" ").map((part) => part.split("=")));
  return { host: given.host, port: Number(given.port), user: given.user, database: given.dbname };
}
const pool = (place, max) => new Pool({ ...settings(place), max });

function untilEnd() {
  const over = { is: false };
  process.stdin.on("end", () => { over.is = true; }).resume();
  return over;
}

// Each client acts again after a random pause with this mean, in ms.
async function several(clients, pause, act, over) {
  const client = async () => {
    while (!over.is) {
      await act();
      await new Promise((done) => setTimeout(done, -pause * Math.log(1 - Math.random())));
    }
  };
  await Promise.all(Array.from({ length: clients }, client));
}
module.exports = { settings, pool, untilEnd, several };
