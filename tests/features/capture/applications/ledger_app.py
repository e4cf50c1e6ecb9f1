"""A ledger on SQLAlchemy 2: partitions, composite keys, versions, RETURNING, bulk rows, windows.

python ledger_app.py prepare CONNINFO
python ledger_app.py load CONNINFO CLIENTS

The load goes on until the standard input ends.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import psycopg
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB, insert
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    Session,
    mapped_column,
    relationship,
    selectinload,
)

ACCOUNTS, BEGIN = 400, datetime(2026, 1, 1, tzinfo=UTC)


class Base(DeclarativeBase):
    pass


class Account(Base):
    __tablename__ = "account"
    tenant: Mapped[int] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    owner: Mapped[str]
    balance: Mapped[Decimal] = mapped_column(sa.Numeric(12, 2))
    version: Mapped[int] = mapped_column()
    details: Mapped[dict[str, object]] = mapped_column(JSONB)
    entries: Mapped[list[Entry]] = relationship(back_populates="account")
    __mapper_args__ = {"version_id_col": version}  # noqa: RUF012


class Entry(Base):
    __tablename__ = "entry"
    id: Mapped[int] = mapped_column(sa.BigInteger, sa.Identity(), primary_key=True)
    at: Mapped[datetime] = mapped_column(sa.DateTime(timezone=True), primary_key=True)
    tenant: Mapped[int]
    number: Mapped[int]
    amount: Mapped[Decimal] = mapped_column(sa.Numeric(12, 2))
    kind: Mapped[str]
    account: Mapped[Account] = relationship(back_populates="entries")
    __table_args__ = (
        sa.ForeignKeyConstraint(["tenant", "number"], ["account.tenant", "account.number"]),
        sa.Index("entry_account", "tenant", "number", "at"),
        {"postgresql_partition_by": "RANGE (at)"},
    )


class Daily(Base):
    __tablename__ = "daily"
    tenant: Mapped[int] = mapped_column(primary_key=True)
    day: Mapped[datetime] = mapped_column(sa.Date, primary_key=True)
    total: Mapped[Decimal] = mapped_column(sa.Numeric(14, 2))


def engine_of(conninfo: str) -> sa.Engine:
    return sa.create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(conninfo))


def moment(rng: random.Random) -> datetime:
    return BEGIN + timedelta(minutes=rng.randrange(90 * 1440))


def key(rng: random.Random) -> tuple[int, int]:
    return 1 + int(5 * rng.random() ** 3), 1 + rng.randrange(ACCOUNTS)


def prepare(engine: sa.Engine) -> None:
    rng = random.Random(1)
    with engine.begin() as session:
        Base.metadata.create_all(session)
        for month in range(1, 5):
            session.execute(
                sa.text(
                    f"CREATE TABLE entry_{month} PARTITION OF entry FOR VALUES"
                    f" FROM ('2026-{month:02}-01') TO ('2026-{month + 1:02}-01')"
                )
            )
        accounts = [
            {"tenant": t, "number": n, "owner": f"owner {n % 90}", "balance": 100, "version": 1}
            | {"details": {"level": rng.choice(["gold", "plain"]), "limit": rng.randrange(5)}}
            for t in range(1, 6)
            for n in range(1, ACCOUNTS + 1)
        ]
        session.execute(sa.insert(Account), accounts)
        session.execute(sa.insert(Entry), [entry(rng) for _ in range(8000)])


def entry(rng: random.Random) -> dict[str, object]:
    tenant, number = key(rng)
    kind = rng.choice(("card", "cash", "fee"))
    cents = rng.randrange(-9000, 9000)
    return {"at": moment(rng), "tenant": tenant, "number": number} | {
        "amount": Decimal(cents) / 100,
        "kind": kind,
    }


def request(session: Session, rng: random.Random) -> None:
    (tenant, number), choice, since = key(rng), rng.random(), moment(rng)
    if choice < 0.25:
        query = sa.select(Account).options(selectinload(Account.entries))
        session.scalars(query.where(Account.tenant == tenant, Account.number == number)).one()
    elif choice < 0.45:
        account = session.get_one(Account, (tenant, number), with_for_update=True)
        made = entry(rng) | {"tenant": tenant, "number": number}
        account.balance += Decimal(str(made["amount"]))
        session.add(Entry(**made))
    elif choice < 0.6:
        query = sa.select(Entry).where(Entry.tenant == tenant, Entry.at >= since)
        query = query.where(Entry.at < since + timedelta(days=3), Entry.kind.in_(["card", "cash"]))
        session.scalars(query.order_by(Entry.at.desc()).limit(50)).all()
    elif choice < 0.7:
        session.execute(sa.insert(Entry), [entry(rng) for _ in range(rng.randrange(2, 9))])
    elif choice < 0.8:
        day = sa.func.date_trunc("day", Entry.at)
        total = sa.func.sum(Entry.amount)
        query = sa.select(day, total, sa.func.sum(total).over(order_by=day)).group_by(day)
        session.execute(query.where(Entry.tenant == tenant, Entry.at >= since)).all()
    elif choice < 0.9:
        made = insert(Daily).values(tenant=tenant, day=since.date(), total=Decimal(5))
        total = Daily.total + made.excluded.total
        session.execute(
            made.on_conflict_do_update(index_elements=["tenant", "day"], set_={"total": total})
        )
    else:
        query = sa.select(sa.func.count()).select_from(Account)
        session.execute(
            query.where(Account.details.contains({"level": "gold"}), Account.tenant == tenant)
        ).one()


def use(engine: sa.Engine, number: int, over: threading.Event) -> None:
    rng = random.Random(number)
    while not over.is_set():
        with Session(engine) as session, session.begin():
            request(session, rng)
        time.sleep(rng.expovariate(300))


def load(engine: sa.Engine, clients: int) -> None:
    over = threading.Event()
    threads = [threading.Thread(target=use, args=(engine, n, over)) for n in range(clients)]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    over.set()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    if sys.argv[1] == "prepare":
        prepare(engine_of(sys.argv[2]))
    else:
        load(engine_of(sys.argv[2]), int(sys.argv[3]))
