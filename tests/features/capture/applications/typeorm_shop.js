// A shop written with TypeORM: relations, soft deletes, versions, query builder, upserts, pages.
// node typeorm_shop.js prepare|load CONNINFO CLIENTS; the load ends with the standard input.
const { DataSource, EntitySchema, ILike, In, MoreThan } = require("typeorm");
const { settings, untilEnd, several } = require("./node_load");

const id = { type: Number, primary: true, generated: true };
const Customer = new EntitySchema({
  name: "Customer",
  columns: { id, email: { type: String, unique: true }, name: { type: String }, created: { type: "timestamptz", createDate: true } },
});
const Product = new EntitySchema({
  name: "Product",
  columns: {
    id, title: { type: String }, attrs: { type: "jsonb" }, price: { type: "numeric", precision: 10, scale: 2 },
    stock: { type: Number }, version: { type: Number, version: true }, deletedAt: { type: "timestamptz", deleteDate: true, nullable: true },
  },
});
const Order = new EntitySchema({
  name: "Order", tableName: "orders",
  columns: { id: { type: "uuid", primary: true, generated: "uuid" }, state: { type: "enum", enum: ["open", "paid", "sent"], default: "open" }, created: { type: "timestamptz", createDate: true } },
  relations: {
    customer: { type: "many-to-one", target: "Customer", nullable: false },
    lines: { type: "one-to-many", target: "Line", inverseSide: "order", cascade: true },
  },
  indices: [{ columns: ["state", "created"] }],
});
const Line = new EntitySchema({
  name: "Line",
  columns: { id, quantity: { type: Number } },
  relations: { order: { type: "many-to-one", target: "Order", inverseSide: "lines" }, product: { type: "many-to-one", target: "Product" } },
});
const WORDS = "red blue green small large steel wood paper lamp chair table desk clock phone cable bag".split(" ");
const skewed = (n) => 1 + Math.floor(n * Math.random() ** 2);
const word = () => WORDS[skewed(WORDS.length) - 1];
const CUSTOMERS = 500, PRODUCTS = 2000;

async function fill(source) {
  await source.synchronize();
  const customers = Array.from({ length: CUSTOMERS }, (_, n) => ({ email: `c${n}@shop.example`, name: word() }));
  const products = Array.from({ length: PRODUCTS }, () => ({
    title: `${word()} ${word()} ${word()}`, attrs: { color: WORDS[skewed(3) - 1], size: skewed(9) }, price: skewed(9999) / 100, stock: 10000,
  }));
  await source.getRepository("Customer").insert(customers);
  await source.getRepository("Product").insert(products);
  for (let n = 0; n < 400; n += 1) await order(source);
}

async function order(source) {
  await source.transaction(async (manager) => {
    const customer = await manager.findOneByOrFail("Customer", { id: skewed(CUSTOMERS) });
    const products = await manager.findBy("Product", { id: In(Array.from({ length: skewed(4) }, () => skewed(PRODUCTS)).sort((a, b) => a - b)) });
    const lines = products.map((product) => ({ product, quantity: skewed(3) }));
    await manager.save("Order", { customer, lines });
    for (const line of lines) await manager.decrement("Product", { id: line.product.id }, "stock", line.quantity);
  });
}

async function request(source) {
  const choice = Math.random(), orders = source.getRepository("Order"), products = source.getRepository("Product");
  if (choice < 0.2) await products.findAndCount({ where: { title: ILike(`%${word()}%`) }, order: { price: "ASC" }, take: 20, skip: 20 * (skewed(3) - 1) });
  else if (choice < 0.4) await products.findOneBy({ id: skewed(PRODUCTS) });
  else if (choice < 0.55) await orders.find({ where: { customer: { id: skewed(CUSTOMERS) } }, relations: { lines: { product: true } }, order: { created: "DESC" }, take: 10 });
  else if (choice < 0.65) await products.createQueryBuilder("p").where("p.attrs @> :attrs", { attrs: { color: WORDS[skewed(3) - 1] } }).andWhere("p.stock > :least", { least: 5 }).getCount();
  else if (choice < 0.8) await order(source);
  else if (choice < 0.87) {
    const product = await products.findOneBy({ id: skewed(PRODUCTS) });
    if (product) await products.save({ ...product, price: skewed(9999) / 100 });
  } else if (choice < 0.92) await source.getRepository("Customer").upsert({ email: `c${skewed(600)}@shop.example`, name: word() }, ["email"]);
  else if (choice < 0.96) {
    const open = await orders.findOne({ where: { state: "open" }, order: { created: "ASC" } });
    if (open) await orders.update({ id: open.id, state: "open" }, { state: "paid" });
  } else if (choice < 0.98) await source.query('SELECT date_trunc(\'hour\', created) AS at, count(*) FROM orders WHERE state IN (\'paid\', \'open\') GROUP BY 1 ORDER BY 1 DESC LIMIT 24');
  else await products.softDelete({ id: skewed(PRODUCTS), stock: MoreThan(0) });
}

async function main([verb, place, clients]) {
  const { user, ...rest } = settings(place);
  const source = new DataSource({ type: "postgres", ...rest, username: user, entities: [Customer, Product, Order, Line], poolSize: 4 });
  await source.initialize();
  if (verb === "prepare") await fill(source);
  else await several(Number(clients), 3, () => request(source), untilEnd());
  await source.destroy();
}
main(process.argv.slice(2)).then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
