package interop;

import akka.actor.ActorSystem;
import akka.persistence.Recovery;
import akka.persistence.SnapshotMetadata;
import akka.persistence.SnapshotSelectionCriteria;
import akka.persistence.state.javadsl.GetObjectResult;
import akka.serialization.Serialization;
import akka.serialization.SerializationExtension;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.typesafe.config.Config;
import com.typesafe.config.ConfigFactory;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;

/**
 * Handles requests, one at a time, with an actor system that has the settings of the session.
 * Replaces the class of interop/pekko, because this plugin has durable states and older tables but
 * no read journal.
 *
 * <p>Guarantees: a request is complete when its response is returned; nothing continues in the
 * background. A request that fails throws {@link Failure}.
 */
final class Session implements AutoCloseable {
    private static final long PATIENCE_SECONDS = 120;
    private static final long ALL = Long.MAX_VALUE;

    private final ActorSystem system;
    private final Serialization serialization;
    private final Tables tables;
    private final States states;

    /** Settings, such as {@code j5ik2o.dynamo-db-journal.table-name}, override application.conf. */
    Session(Map<String, Object> settings) {
        Config config = ConfigFactory.load(ConfigFactory.parseMap(settings)
                .withFallback(ConfigFactory.parseResourcesAnySyntax("application")));
        modules(config);
        tables = new Tables(config);
        system = ActorSystem.create("interop", config);
        serialization = SerializationExtension.get(system);
        states = new States(system);
    }

    /** Fails early: without the client's module, the plugin's actor dies and requests time out. */
    private static void modules(Config config) {
        String version = config.getString("j5ik2o.dynamo-db-journal.dynamo-db-client.client-version");
        String driver = config.getString(
                "j5ik2o.dynamo-db-journal." + version + "-journal-row-write-driver-factory-class-name");
        try {
            Class.forName(driver, false, Session.class.getClassLoader());
        } catch (ClassNotFoundException e) {
            throw new Failure("unsupported", "built without " + driver + "; see profiles in pom.xml", e);
        }
    }

    @Override
    public void close() {
        system.terminate();
        await(system.getWhenTerminated());
        tables.close();
    }

    // For operations without a request; see Fixtures and StatesByHand.
    Tables tables() {
        return tables;
    }

    Serialization serialization() {
        return serialization;
    }

    ObjectNode answer(JsonNode request) {
        ObjectNode answer = Payloads.JSON.createObjectNode().put("ok", true);
        switch (Failure.text(request, "do")) {
            case "create-tables" -> tables.create(
                    list(request, "tables", Tables.ALL), list(request, "prefixes", List.of()),
                    request.path("legacy").asBoolean(false));
            case "append" -> append(request, answer);
            case "replay" -> replay(request, answer);
            case "highest" -> answer.put("highest", entity(request, Recovery.none(), Entity::done).highest);
            case "delete" -> {
                long to = Failure.number(request, "to");
                entity(request, Recovery.none(), it -> it.deleteMessages(to));
            }
            case "save-snapshot" -> save(request, answer);
            case "load-snapshot" -> load(request, answer);
            case "delete-snapshot" -> {
                long at = Failure.number(request, "at");
                entity(request, Recovery.none(), it -> it.deleteSnapshot(at));
            }
            case "delete-snapshots" -> {
                SnapshotSelectionCriteria criteria = criteria(request);
                entity(request, Recovery.none(), it -> it.deleteSnapshots(criteria));
            }
            case "state-get" -> stateGet(request, answer);
            case "state-put" -> await(states.put(
                    id(request), Failure.number(request, "revision"), Payloads.read(Failure.required(request, "state")),
                    request.has("tag") ? Failure.text(request, "tag") : ""));
            case "state-delete" -> await(
                    request.has("revision")
                            ? states.delete(id(request), Failure.number(request, "revision"))
                            : states.delete(id(request)));
            case "query", "ids" -> throw new Failure("unsupported", "this plugin has no read journal", null);
            case "items" -> tables.items(Failure.text(request, "table"), request.path("prefix").textValue())
                    .forEach(answer.putArray("items")::add);
            default -> throw Failure.invalid("unknown request: " + request.get("do"));
        }
        return answer;
    }

    private static List<String> list(JsonNode request, String name, List<String> otherwise) {
        if (!request.has(name)) {
            return otherwise;
        }
        List<String> all = new ArrayList<>();
        request.get(name).forEach(it -> all.add(it.textValue()));
        return all;
    }

    private void append(JsonNode request, ObjectNode answer) {
        List<Object> events = new ArrayList<>();
        Failure.required(request, "events").forEach(event -> events.add(Payloads.read(event)));
        if (events.isEmpty()) {
            throw Failure.invalid("events is empty");
        }
        boolean together = request.path("atomic").asBoolean(false);
        // Recovery.none still reads the highest sequence number; it only skips the events.
        Entity entity = entity(request, Recovery.none(), it -> {
            if (together) {
                it.persistTogether(events);
            } else {
                it.persistEach(events);
            }
        });
        ObjectNode facts = answer;
        Failure failure = null;
        if (!entity.rejected.isEmpty()) {
            failure = new Failure("persist-rejected", entity.rejected.get(0).cause(), null);
            facts = failure.facts;
            ArrayNode rejected = facts.putArray("rejected");
            entity.rejected.forEach(it -> rejected.add(it.sequenceNr()));
        }
        ArrayNode numbers = facts.putArray("sequenceNrs");
        entity.persisted.forEach(numbers::add);
        if (failure != null) {
            throw failure;
        }
    }

    private void replay(JsonNode request, ObjectNode answer) {
        Recovery recovery = Recovery.create(
                SnapshotSelectionCriteria.none(),
                Failure.number(request, "to", ALL),
                Failure.number(request, "max", ALL));
        Entity entity = entity(request, recovery, Entity::done);
        ArrayNode events = answer.putArray("events");
        entity.events.forEach(it ->
                Payloads.write(events.addObject().put("sequenceNr", it.sequenceNr()), it.event(), serialization));
        answer.put("highest", entity.highest);
    }

    private void save(JsonNode request, ObjectNode answer) {
        Object snapshot = Payloads.read(Failure.required(request, "snapshot"));
        Long at = request.has("at") ? Failure.number(request, "at") : null;
        Entity entity = entity(request, Recovery.none(), it -> it.save(snapshot, at));
        metadata(answer, entity.saved);
    }

    private void load(JsonNode request, ObjectNode answer) {
        Recovery recovery = Recovery.create(criteria(request), ALL, 0);
        Entity entity = entity(request, recovery, Entity::done);
        if (entity.offer == null) {
            answer.putNull("snapshot");
        } else {
            ObjectNode snapshot = answer.putObject("snapshot");
            metadata(snapshot, entity.offer.metadata());
            Payloads.write(snapshot, entity.offer.snapshot(), serialization);
        }
    }

    private static void metadata(ObjectNode to, SnapshotMetadata metadata) {
        to.put("sequenceNr", metadata.sequenceNr()).put("timestamp", metadata.timestamp());
    }

    private static SnapshotSelectionCriteria criteria(JsonNode request) {
        return SnapshotSelectionCriteria.create(
                Failure.number(request, "maxSequenceNr", ALL),
                Failure.number(request, "maxTimestamp", ALL),
                Failure.number(request, "minSequenceNr", 0),
                Failure.number(request, "minTimestamp", 0));
    }

    private void stateGet(JsonNode request, ObjectNode answer) {
        GetObjectResult<Object> found = await(states.get(id(request)));
        answer.put("revision", found.revision());
        if (found.value().isEmpty()) {
            answer.putNull("state");
        } else {
            Payloads.write(answer.putObject("state"), found.value().get(), serialization);
        }
    }

    private static String id(JsonNode request) {
        String id = Failure.text(request, "persistenceId");
        if (id.isEmpty()) {
            // An actor would not start, and so never respond.
            throw Failure.invalid("persistenceId is empty");
        }
        return id;
    }

    private Entity entity(JsonNode request, Recovery recovery, Consumer<Entity> work) {
        CompletableFuture<Entity> done = new CompletableFuture<>();
        system.actorOf(Entity.props(id(request), recovery, work, done));
        return await(done);
    }

    private static <T> T await(CompletionStage<T> stage) {
        try {
            return stage.toCompletableFuture().get(PATIENCE_SECONDS, TimeUnit.SECONDS);
        } catch (ExecutionException e) {
            throw e.getCause() instanceof Failure failure ? failure : new Failure("failed", e.getCause());
        } catch (TimeoutException e) {
            throw new Failure("timeout", "no response within " + PATIENCE_SECONDS + " s", e);
        } catch (InterruptedException e) {
            throw new Failure("interrupted", e);
        }
    }

    /** Merges settings; {@code above} overrides {@code below}. */
    static Map<String, Object> settings(Map<String, Object> below, JsonNode above) {
        Map<String, Object> all = new HashMap<>(below);
        above.fields().forEachRemaining(it -> all.put(it.getKey(), it.getValue().asText()));
        return all;
    }
}
