// River, a job queue for Go: its tables, its workers and its maintenance.
// river_queue prepare|load CONNINFO CLIENTS; the load ends with the standard input.
package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

type Mail struct {
	Number int    `json:"number"`
	Words  string `json:"words"`
}

func (Mail) Kind() string { return "mail" }

type Worker struct{ river.WorkerDefaults[Mail] }

func (*Worker) Work(_ context.Context, job *river.Job[Mail]) error {
	if job.Args.Number%13 == 0 && job.Attempt == 1 {
		return errors.New("try again")
	}
	return nil
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func add(ctx context.Context, client *river.Client[pgx.Tx], pool *pgxpool.Pool) {
	mail := Mail{rand.Intn(1000), "hello hello"}
	switch choice := rand.Float64(); {
	case choice < 0.5:
		_, err := client.Insert(ctx, mail, nil)
		check(err)
	case choice < 0.7:
		_, err := client.Insert(ctx, mail, &river.InsertOpts{UniqueOpts: river.UniqueOpts{ByArgs: true}, Priority: 1 + rand.Intn(3)})
		check(err)
	case choice < 0.8:
		_, err := client.InsertMany(ctx, []river.InsertManyParams{{Args: mail}, {Args: mail}, {Args: mail}})
		check(err)
	case choice < 0.9:
		tx, err := pool.Begin(ctx)
		check(err)
		made, err := client.InsertTx(ctx, tx, mail, &river.InsertOpts{ScheduledAt: time.Now().Add(time.Hour)})
		check(err)
		check(tx.Commit(ctx))
		_, err = client.JobCancel(ctx, made.Job.ID)
		check(err)
	default:
		_, err := client.JobList(ctx, river.NewJobListParams().First(20))
		check(err)
	}
}

func main() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Args[2]+" pool_max_conns=10")
	check(err)
	defer pool.Close()
	if os.Args[1] == "prepare" {
		migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
		check(err)
		_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
		check(err)
		return
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, &Worker{})
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Queues:  map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 20}},
		Workers: workers, FetchCooldown: 50 * time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	check(err)
	check(client.Start(ctx))
	clients, _ := strconv.Atoi(os.Args[3])
	var over atomic.Bool
	var group sync.WaitGroup
	for n := 0; n < clients; n++ {
		group.Go(func() {
			for !over.Load() {
				add(ctx, client, pool)
				time.Sleep(time.Duration(rand.ExpFloat64() * 10e6))
			}
		})
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	over.Store(true)
	group.Wait()
	check(client.Stop(ctx))
}
