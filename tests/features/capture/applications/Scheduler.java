// Quartz, a scheduler for Java, with its tables in PostgreSQL: triggers, jobs, a cluster's locks.
// java Scheduler.java prepare|load CONNINFO CLIENTS; the load ends with the standard input.
import static org.quartz.JobBuilder.newJob;
import static org.quartz.SimpleScheduleBuilder.simpleSchedule;
import static org.quartz.TriggerBuilder.newTrigger;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.sql.DriverManager;
import java.util.Arrays;
import java.util.Date;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.stream.Collectors;
import org.quartz.*;
import org.quartz.impl.StdSchedulerFactory;

public class Scheduler {
    public static class Work implements Job {
        public void execute(JobExecutionContext context) {}
    }

    public static void main(String[] words) throws Exception {
        Map<String, String> place = Arrays.stream(words[1].split(" ")).map(part -> part.split("=", 2))
            .collect(Collectors.toMap(part -> part[0], part -> part[1]));
        String url = "jdbc:postgresql://" + place.get("host") + ":" + place.get("port") + "/" + place.get("dbname");
        if (words[0].equals("prepare")) {
            prepare(url, place.get("user"));
            return;
        }
        Properties settings = new Properties();
        Map<String, String> given = new HashMap<>(Map.of(
            "scheduler.instanceId", "AUTO", "threadPool.threadCount", "4",
            "jobStore.class", "org.quartz.impl.jdbcjobstore.JobStoreTX",
            "jobStore.driverDelegateClass", "org.quartz.impl.jdbcjobstore.PostgreSQLDelegate",
            "jobStore.dataSource", "own", "jobStore.isClustered", "true",
            "dataSource.own.driver", "org.postgresql.Driver", "dataSource.own.URL", url,
            "dataSource.own.user", place.get("user"), "dataSource.own.maxConnections", "8"));
        given.put("threadPool.class", "org.quartz.simpl.SimpleThreadPool");
        given.put("scheduler.skipUpdateCheck", "true");
        given.put("jobStore.clusterCheckinInterval", "1000");
        given.forEach((name, value) -> settings.setProperty("org.quartz." + name, value));
        org.quartz.Scheduler scheduler = new StdSchedulerFactory(settings).getScheduler();
        scheduler.start();
        Thread[] clients = new Thread[Integer.parseInt(words[2])];
        boolean[] over = {false};
        for (int n = 0; n < clients.length; n++) {
            Random random = new Random(n);
            clients[n] = new Thread(() -> {
                while (!over[0]) act(scheduler, random);
            });
            clients[n].start();
        }
        while (System.in.read() >= 0) {}
        over[0] = true;
        for (Thread client : clients) client.join();
        scheduler.shutdown(true);
        System.exit(0);
    }

    static void act(org.quartz.Scheduler scheduler, Random random) {
        try {
            JobKey key = new JobKey("job " + random.nextInt(2000), "group " + random.nextInt(5));
            double choice = random.nextDouble();
            if (choice < 0.5) {
                scheduler.scheduleJob(
                    newJob(Work.class).usingJobData("number", random.nextInt()).build(),
                    newTrigger().startAt(new Date(System.currentTimeMillis() + random.nextInt(800))).build());
            } else if (choice < 0.6) {
                scheduler.addJob(newJob(Work.class).withIdentity(key).storeDurably().build(), true);
            } else if (choice < 0.75) {
                if (scheduler.checkExists(key)) scheduler.triggerJob(key);
            } else if (choice < 0.85) {
                if (scheduler.checkExists(key) && scheduler.getTriggersOfJob(key).size() < 2)
                    scheduler.scheduleJob(newTrigger().forJob(key)
                        .withSchedule(simpleSchedule().withIntervalInSeconds(2).withRepeatCount(3)).build());
            } else if (choice < 0.95) {
                scheduler.getJobDetail(key);
            } else {
                scheduler.deleteJob(key);
            }
            Thread.sleep((long) (-20 * Math.log(1 - random.nextDouble())));
        } catch (SchedulerException | InterruptedException error) {
            // Two clients may act on one job.
        }
    }

    static void prepare(String url, String user) throws Exception {
        String path = "/org/quartz/impl/jdbcjobstore/tables_postgres.sql";
        try (var file = Scheduler.class.getResourceAsStream(path); var session = DriverManager.getConnection(url, user, "")) {
            String script = new String(file.readAllBytes(), StandardCharsets.UTF_8);
            session.createStatement().execute(script.replaceAll("(?m)^--.*$", "").replaceAll("(?i)COMMIT;", ""));
        }
    }
}
