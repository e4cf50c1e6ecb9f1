//! The SQL of the nine tables of the TPC-C-like workload.
//!
//! Source: TPC-C specification, clause 1.3; names as in most implementations.

use crate::options::TpccOptions;
use crate::sizes::{
    CUSTOMERS_PER_DISTRICT, DISTRICTS_PER_WAREHOUSE, FIRST_OPEN_ORDER, ITEMS, ORDERS_PER_DISTRICT,
};
use pgdyno_engine::dialect::Dialect;

/// All tables, in the order of the statement that drops them.
pub(super) const ALL: [&str; 9] = [
    "warehouse",
    "district",
    "customer",
    "history",
    "new_order",
    "orders",
    "order_line",
    "item",
    "stock",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Table {
    Warehouse = 1,
    District,
    Customer,
    History,
    NewOrder,
    Orders,
    OrderLine,
    Item,
    Stock,
}

/// All tables, the largest first: the order of loading, and of the progress counters.
pub(super) const BY_SIZE: [Table; 9] = [
    Table::Stock,
    Table::OrderLine,
    Table::Customer,
    Table::Orders,
    Table::History,
    Table::Item,
    Table::NewOrder,
    Table::District,
    Table::Warehouse,
];

const ADDRESS: &str = "street_1 varchar(20), {p}street_2 varchar(20), {p}city varchar(20), \
     {p}state char(2), {p}zip char(9)";

impl Table {
    pub(super) fn name(self) -> &'static str {
        ALL[self as usize - 1]
    }

    /// Number of rows after the load. For order lines it is the mean, because their number is
    /// random.
    pub(super) fn rows_of(self, warehouses: u32) -> u64 {
        let districts = u64::from(warehouses) * u64::from(DISTRICTS_PER_WAREHOUSE);
        match self {
            Table::Warehouse => u64::from(warehouses),
            Table::District => districts,
            Table::Customer | Table::History => districts * u64::from(CUSTOMERS_PER_DISTRICT),
            Table::Orders => districts * u64::from(ORDERS_PER_DISTRICT),
            Table::OrderLine => districts * u64::from(ORDERS_PER_DISTRICT) * 10,
            Table::NewOrder => districts * u64::from(ORDERS_PER_DISTRICT + 1 - FIRST_OPEN_ORDER),
            Table::Item => u64::from(ITEMS),
            Table::Stock => u64::from(warehouses) * u64::from(ITEMS),
        }
    }

    /// Tables whose rows are updated get free room on each page. Each payment updates a warehouse
    /// and a district. These small tables have few rows per page, so that transactions do not wait
    /// for a page.
    fn fillfactor(self) -> u8 {
        match self {
            Table::Warehouse | Table::District => 10,
            Table::Customer => 90,
            Table::Orders | Table::OrderLine | Table::Stock => 90,
            Table::History | Table::NewOrder | Table::Item => 100,
        }
    }

    /// True if the table is divided into partitions: it is large and belongs to a warehouse.
    pub(super) fn is_partitioned(self, options: &TpccOptions) -> bool {
        options.partitions > 0 && !matches!(self, Table::Warehouse | Table::District | Table::Item)
    }

    /// Number of warehouses of one COPY; None if one COPY fills the table or leaf.
    pub(super) fn range_warehouses(self, options: &TpccOptions) -> Option<u32> {
        let is_large = !matches!(self, Table::Warehouse | Table::District | Table::Item);
        options.range_warehouses.filter(|_| is_large && options.partitions == 0)
    }

    /// The column with the number of the warehouse.
    pub(super) fn warehouse_column(self) -> Option<&'static str> {
        Some(match self {
            Table::Warehouse => "w_id",
            Table::District => "d_w_id",
            Table::Customer => "c_w_id",
            Table::History => "h_w_id",
            Table::NewOrder => "no_w_id",
            Table::Orders => "o_w_id",
            Table::OrderLine => "ol_w_id",
            Table::Stock => "s_w_id",
            Table::Item => return None,
        })
    }

    fn key(self) -> Option<&'static str> {
        Some(match self {
            Table::Warehouse => "w_id",
            Table::District => "d_w_id, d_id",
            Table::Customer => "c_w_id, c_d_id, c_id",
            Table::NewOrder => "no_w_id, no_d_id, no_o_id",
            Table::Orders => "o_w_id, o_d_id, o_id",
            Table::OrderLine => "ol_w_id, ol_d_id, ol_o_id, ol_number",
            Table::Item => "i_id",
            Table::Stock => "s_w_id, s_i_id",
            Table::History => return None,
        })
    }

    /// Columns of the second index: transactions find customers by last name, and orders by
    /// customer.
    fn index(self) -> Option<&'static str> {
        match self {
            Table::Customer => Some("c_w_id, c_d_id, c_last, c_first"),
            Table::Orders => Some("o_w_id, o_d_id, o_c_id, o_id"),
            _ => None,
        }
    }

    fn columns(self) -> String {
        let address = |prefix: &str| prefix.to_string() + &ADDRESS.replace("{p}", prefix);
        match self {
            Table::Warehouse => format!(
                "w_id int not null, w_name varchar(10), {}, w_tax numeric(4,4), \
                 w_ytd numeric(12,2)",
                address("w_")
            ),
            Table::District => format!(
                "d_id int not null, d_w_id int not null, d_name varchar(10), {}, \
                 d_tax numeric(4,4), d_ytd numeric(12,2), d_next_o_id int",
                address("d_")
            ),
            Table::Customer => format!(
                "c_id int not null, c_d_id int not null, c_w_id int not null, \
                 c_first varchar(16), c_middle char(2), c_last varchar(16), {}, c_phone char(16), \
                 c_since timestamp, c_credit char(2), c_credit_lim numeric(12,2), \
                 c_discount numeric(4,4), c_balance numeric(12,2), c_ytd_payment numeric(12,2), \
                 c_payment_cnt int, c_delivery_cnt int, c_data varchar(500)",
                address("c_")
            ),
            Table::History => "h_c_id int, h_c_d_id int, h_c_w_id int, h_d_id int, h_w_id int, \
                 h_date timestamp, h_amount numeric(6,2), h_data varchar(24)"
                .into(),
            Table::NewOrder => {
                "no_o_id int not null, no_d_id int not null, no_w_id int not null".into()
            }
            Table::Orders => "o_id int not null, o_d_id int not null, o_w_id int not null, \
                 o_c_id int, o_entry_d timestamp, o_carrier_id int, o_ol_cnt int, o_all_local int"
                .into(),
            Table::OrderLine => "ol_o_id int not null, ol_d_id int not null, \
                 ol_w_id int not null, ol_number int not null, ol_i_id int, ol_supply_w_id int, \
                 ol_delivery_d timestamp, ol_quantity int, ol_amount numeric(6,2), \
                 ol_dist_info char(24)"
                .into(),
            Table::Item => "i_id int not null, i_im_id int, i_name varchar(24), \
                 i_price numeric(5,2), i_data varchar(50)"
                .into(),
            Table::Stock => {
                let districts: Vec<String> =
                    (1..=10).map(|number| format!("s_dist_{number:02} char(24)")).collect();
                format!(
                    "s_i_id int not null, s_w_id int not null, s_quantity int, {}, s_ytd bigint, \
                     s_order_cnt int, s_remote_cnt int, s_data varchar(50)",
                    districts.join(", ")
                )
            }
        }
    }

    /// The statement that creates the table, or the partitioned parent.
    pub(super) fn create(self, options: &TpccOptions, dialect: &Dialect) -> String {
        let (name, columns) = (self.name(), self.columns());
        match (self.is_partitioned(options), self.warehouse_column()) {
            (true, Some(column)) => {
                format!("create table {name}({columns}) partition by hash ({column})")
            }
            _ => {
                let unlogged = if options.unlogged { " unlogged" } else { "" };
                let fill = dialect.fillfactor(options.fillfactor, self.fillfactor());
                format!("create{unlogged} table {name}({columns}){fill}")
            }
        }
    }

    /// The statement that creates the leaf with this number, from 1.
    pub(super) fn create_leaf(
        self,
        options: &TpccOptions,
        number: u32,
        dialect: &Dialect,
    ) -> String {
        let unlogged = if options.unlogged { " unlogged" } else { "" };
        let fill = dialect.fillfactor(options.fillfactor, self.fillfactor());
        format!(
            "create{unlogged} table {} partition of {} for values with (modulus {}, remainder {})\
             {fill}",
            self.leaf(number),
            self.name(),
            options.partitions,
            number - 1
        )
    }

    pub(super) fn leaf(self, number: u32) -> String {
        format!("{}_{number}", self.name())
    }

    /// Statements that add key and index to `table`, which is this one or a leaf of it.
    pub(super) fn index_statements(self, table: &str) -> Vec<String> {
        let key = self.key().map(|columns| {
            format!("alter table {table} add constraint {table}_pkey primary key ({columns})")
        });
        let index = self
            .index()
            .map(|columns| format!("create index {table}_lookup_idx on {table} ({columns})"));
        key.into_iter().chain(index).collect()
    }

    /// The statement that distributes the empty table on Citus: by warehouse, with items on every
    /// node.
    pub(super) fn distribute(self) -> String {
        let name = self.name();
        match self.warehouse_column() {
            None => format!("select pg_catalog.create_reference_table('{name}')"),
            Some(column) => {
                let neighbour = if self == Table::Warehouse { "none" } else { "warehouse" };
                format!(
                    "select pg_catalog.create_distributed_table('{name}', '{column}', \
                     colocate_with => '{neighbour}')"
                )
            }
        }
    }
}

/// Table, columns, and the table to which they refer (clause 1.3).
pub(super) const FOREIGN_KEYS: [(&str, &str, &str); 10] = [
    ("district", "d_w_id", "warehouse"),
    ("customer", "c_w_id, c_d_id", "district"),
    ("history", "h_c_w_id, h_c_d_id, h_c_id", "customer"),
    ("history", "h_w_id, h_d_id", "district"),
    ("new_order", "no_w_id, no_d_id, no_o_id", "orders"),
    ("orders", "o_w_id, o_d_id, o_c_id", "customer"),
    ("order_line", "ol_w_id, ol_d_id, ol_o_id", "orders"),
    ("order_line", "ol_supply_w_id, ol_i_id", "stock"),
    ("stock", "s_w_id", "warehouse"),
    ("stock", "s_i_id", "item"),
];
