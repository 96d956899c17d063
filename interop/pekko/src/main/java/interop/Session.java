package interop;

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
import org.apache.pekko.actor.ActorSystem;
import org.apache.pekko.persistence.Recovery;
import org.apache.pekko.persistence.SnapshotMetadata;
import org.apache.pekko.persistence.SnapshotSelectionCriteria;
import org.apache.pekko.persistence.query.EventEnvelope;
import org.apache.pekko.serialization.Serialization;
import org.apache.pekko.serialization.SerializationExtension;

/**
 * Handles requests, one at a time, with an actor system that has the settings of the session.
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
    private final ReadJournal readJournal;

    /** Settings, such as {@code dynamodb-journal.journal-table}, override application.conf. */
    Session(Map<String, Object> settings) {
        Config config = ConfigFactory.load(ConfigFactory.parseMap(settings)
                .withFallback(ConfigFactory.parseResourcesAnySyntax("application")));
        tables = new Tables(config);
        system = ActorSystem.create("interop", config);
        serialization = SerializationExtension.get(system);
        readJournal = new ReadJournal(system);
    }

    @Override
    public void close() {
        system.terminate();
        await(system.getWhenTerminated());
        tables.close();
    }

    // For operations without a request; see Fixtures and OldFormat.
    Tables tables() {
        return tables;
    }

    Serialization serialization() {
        return serialization;
    }

    ObjectNode answer(JsonNode request) {
        ObjectNode answer = Payloads.JSON.createObjectNode().put("ok", true);
        switch (Failure.text(request, "do")) {
            case "create-tables" -> tables.create();
            case "append" -> append(request, answer);
            case "replay" -> replay(request, answer);
            case "query" -> query(request, answer);
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
            case "ids" -> ids(request, answer);
            case "items" -> tables.items(Failure.text(request, "table")).forEach(answer.putArray("items")::add);
            default -> throw Failure.invalid("unknown request: " + request.get("do"));
        }
        return answer;
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
        entity.events.forEach(it -> event(events.addObject(), it.sequenceNr(), it.event()));
        answer.put("highest", entity.highest);
    }

    private void query(JsonNode request, ObjectNode answer) {
        CompletionStage<List<EventEnvelope>> found = readJournal.events(
                Failure.text(request, "persistenceId"),
                Failure.number(request, "from", 0),
                // The plugin accepts no higher value.
                Failure.number(request, "to", Integer.MAX_VALUE));
        ArrayNode events = answer.putArray("events");
        await(found).forEach(it -> event(events.addObject(), it.sequenceNr(), it.event()));
    }

    private void event(ObjectNode to, long sequenceNr, Object event) {
        Payloads.write(to.put("sequenceNr", sequenceNr), event, serialization);
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

    private void ids(JsonNode request, ObjectNode answer) {
        List<String> ids = await(readJournal.ids(request.path("scan").asBoolean(false)));
        ids.stream().sorted().forEach(answer.putArray("persistenceIds")::add);
    }

    private Entity entity(JsonNode request, Recovery recovery, Consumer<Entity> work) {
        String id = Failure.text(request, "persistenceId");
        if (id.isEmpty()) {
            // The actor would not start, and so never respond.
            throw Failure.invalid("persistenceId is empty");
        }
        CompletableFuture<Entity> done = new CompletableFuture<>();
        system.actorOf(Entity.props(id, recovery, work, done));
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
