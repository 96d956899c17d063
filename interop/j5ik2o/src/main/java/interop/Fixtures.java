package interop;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Consumer;

/**
 * Writes the histories of {@link Histories} through the plugin. Saves all items of the tables to
 * journal-CHAPTER.jsonl and snapshot-CHAPTER.jsonl, and what the plugin itself replays from them to
 * expected.jsonl.
 *
 * <pre>interop.Fixtures ENDPOINT FOLDER</pre>
 *
 * Each chapter has its own tables, which must not exist yet. A line of expected.jsonl is one of
 *
 * <pre>
 * {"chapter":  {journal, legacy, byHand, settings}}           settings of the lines that follow
 * {"event":    {journal, persistenceId, sequenceNr, serializer, manifest, type, value}}
 * {"entity":   {journal, persistenceId, events, highest}}     event count, last sequence number
 * {"snapshot": {journal, persistenceId, criteria, found}}     found: the snapshot loaded, or null
 * {"failure":  {journal, persistenceId, do, error}}           a request that failed in the plugin
 * {"state":    {journal, persistenceId, revision, found}}     found: the state loaded, or null
 * </pre>
 *
 * where journal is the chapter's name. States have the chapters v1 and v2, after the version of the
 * client, in state-v1.jsonl and state-v2.jsonl. If its module is missing, {@link StatesByHand}
 * writes them.
 *
 * <p>Guarantees: two runs differ only in the ids of writers and in times.
 */
final class Fixtures {
    private final Map<String, Object> settings;
    private final Path folder;
    private final PrintStream expected;

    // State of the current chapter.
    private String chapter;
    private Session session;
    private final Set<String> ids = new TreeSet<>();
    private final List<JsonNode> criteria = new ArrayList<>();
    private StatesByHand byHand;

    private Fixtures(Map<String, Object> settings, Path folder, PrintStream expected) {
        this.settings = settings;
        this.folder = folder;
        this.expected = expected;
    }

    public static void main(String[] args) throws IOException {
        PrintStream log = System.err;
        System.setOut(log);
        Path folder = Files.createDirectories(Path.of(args[1]));
        try (PrintStream expected = lines(folder.resolve("expected.jsonl"))) {
            Histories.all(new Fixtures(Main.settings(new String[] {args[0]}), folder, expected));
        } catch (Failure failure) {
            log.println(failure.kind + ": " + failure.getMessage());
            System.exit(1);
        }
        System.exit(0);
    }

    /** Writes a journal and snapshots. Settings in {@code over} are paths below {@code j5ik2o.}. */
    void chapter(String name, boolean legacy, Map<String, String> over, Consumer<Fixtures> write) throws IOException {
        Map<String, Object> all = begin(name, legacy, false, over);
        try (Session writing = new Session(all)) {
            session = writing;
            writing.tables().create(List.of("journal", "snapshot"), List.of(), legacy);
            write.accept(this);
        }
        // A new actor system, as after a restart.
        try (Session reading = new Session(all)) {
            session = reading;
            ids.forEach(this::expect);
            items("journal");
            items("snapshot");
        }
    }

    /** Writes only states, as the module for this version of the client stores them. */
    void states(String version, Consumer<Fixtures> write) throws IOException {
        Map<String, String> over = Map.of("dynamo-db-state.dynamo-db-client.client-version", version);
        Map<String, Object> all = begin(version, false, !States.available(version), over);
        try (Session writing = new Session(all)) {
            session = writing;
            byHand = byHand(version);
            writing.tables().create(List.of("state"), List.of(), false);
            write.accept(this);
        }
        try (Session reading = new Session(all)) {
            session = reading;
            byHand = byHand(version);
            ids.forEach(this::expectState);
            items("state");
        }
    }

    /** Returns a replacement for a missing module, or null if the module is present. */
    private StatesByHand byHand(String version) {
        return States.available(version)
                ? null
                : new StatesByHand(session.tables(), session.serialization(), version);
    }

    private Map<String, Object> begin(String name, boolean legacy, boolean byHand, Map<String, String> over) {
        chapter = name;
        ids.clear();
        criteria.clear();
        Map<String, String> paths = full(name, over);
        ObjectNode line = object().put("journal", name).put("legacy", legacy).put("byHand", byHand);
        expected.println(object().set("chapter", line.set("settings", Payloads.JSON.valueToTree(paths))));
        return Session.settings(settings, Payloads.JSON.valueToTree(paths));
    }

    private static Map<String, String> full(String name, Map<String, String> over) {
        Map<String, String> paths = new TreeMap<>();
        for (String table : Tables.ALL) {
            paths.put("j5ik2o.dynamo-db-" + table + ".table-name", table + "-" + name);
        }
        over.forEach((path, value) -> paths.put("j5ik2o." + path, value));
        return paths;
    }

    private void items(String table) throws IOException {
        try (PrintStream out = lines(folder.resolve(table + "-" + chapter + ".jsonl"))) {
            session.tables().items(table, null).forEach(item -> out.println(object().set("Item", item)));
        }
    }

    private void expect(String id) {
        ObjectNode about = object().put("journal", chapter).put("persistenceId", id);
        JsonNode replay = ask(id, object().put("do", "replay"));
        for (JsonNode event : replay.get("events")) {
            ObjectNode line = about.deepCopy().setAll((ObjectNode) event);
            expected.println(object().set("event", line.without("class")));
        }
        ObjectNode entity = about.deepCopy().put("events", replay.get("events").size());
        expected.println(object().set("entity", entity.set("highest", replay.get("highest"))));
        expectSnapshot(about, object());
        if (id.equals(Histories.SNAPSHOTS)) {
            criteria.forEach(one -> expectSnapshot(about, one));
        }
    }

    private void expectSnapshot(ObjectNode about, JsonNode bounds) {
        ObjectNode load = object().put("do", "load-snapshot");
        load.setAll((ObjectNode) bounds);
        JsonNode found = ask(about.get("persistenceId").textValue(), load).get("snapshot");
        if (found instanceof ObjectNode one) {
            one.remove("class");
        } else if (bounds.isEmpty()) {
            return; // an id without snapshots
        }
        ObjectNode line = about.deepCopy().set("criteria", bounds);
        expected.println(object().set("snapshot", line.set("found", found)));
    }

    private void expectState(String id) {
        JsonNode answer = byHand == null ? ask(id, object().put("do", "state-get")) : byHand.get(id);
        if (answer.get("state") instanceof ObjectNode state) {
            state.remove("class");
        }
        ObjectNode line = object().put("journal", chapter).put("persistenceId", id);
        line.set("revision", answer.get("revision"));
        expected.println(object().set("state", line.set("found", answer.get("state"))));
    }

    // Operations that the histories consist of.

    void append(String id, int count) {
        append(id, false, texts(count));
    }

    void batch(String id, int count) {
        append(id, true, texts(count));
    }

    void append(String id, ObjectNode... events) {
        append(id, false, List.of(events));
    }

    void append(String id, boolean atomic, List<ObjectNode> events) {
        ObjectNode request = object().put("do", "append").put("atomic", atomic);
        ArrayNode all = request.putArray("events");
        events.forEach(all::add);
        ask(id, request);
    }

    void delete(String id, long to) {
        ask(id, object().put("do", "delete").put("to", to));
    }

    /** Expects the plugin to fail this request; whatever it wrote stays in the tables. */
    void fails(String id, ObjectNode request) {
        try {
            ask(id, request);
        } catch (Failure failure) {
            ObjectNode line = object().put("journal", chapter).put("persistenceId", id);
            line.set("do", request.get("do"));
            expected.println(object().set("failure", line.put("error", failure.kind)));
            return;
        }
        throw new Failure("failed", "the plugin was expected to fail: " + request, null);
    }

    /** Returns the snapshot's timestamp, after waiting so that the next one differs. */
    long save(String id, long at, ObjectNode snapshot) {
        ObjectNode request = object().put("do", "save-snapshot").put("at", at);
        long time = ask(id, request.set("snapshot", snapshot)).get("timestamp").longValue();
        while (System.currentTimeMillis() <= time + 1) {
            Thread.onSpinWait();
        }
        return time;
    }

    /** Adds bounds to search the snapshots of {@link Histories#SNAPSHOTS} with. */
    void lookedFor(ObjectNode bounds) {
        criteria.add(bounds);
    }

    void put(String id, long revision, ObjectNode state, String tag) {
        if (byHand != null) {
            ids.add(id);
            byHand.put(id, revision, Payloads.read(state), tag);
            return;
        }
        ObjectNode request = object().put("do", "state-put").put("revision", revision).put("tag", tag);
        ask(id, request.set("state", state));
    }

    void deleteState(String id) {
        if (byHand != null) {
            byHand.delete(id);
            return;
        }
        ask(id, object().put("do", "state-delete"));
    }

    JsonNode ask(String id, ObjectNode request) {
        ids.add(id);
        return session.answer(request.put("persistenceId", id));
    }

    private static List<ObjectNode> texts(int count) {
        List<ObjectNode> texts = new ArrayList<>();
        for (int i = 1; i <= count; i++) {
            texts.add(text("event " + i + " of " + count));
        }
        return texts;
    }

    static ObjectNode text(String value) {
        return payload("string").put("value", value);
    }

    static ObjectNode note(String type, String text, long number) {
        ObjectNode note = payload(type);
        note.putObject("value").put("text", text).put("number", number);
        return note;
    }

    static ObjectNode tagged(String event, String... tags) {
        ObjectNode tagged = payload("tagged");
        ArrayNode all = tagged.putObject("value").put("event", event).putArray("tags");
        for (String tag : tags) {
            all.add(tag);
        }
        return tagged;
    }

    static ObjectNode payload(String type) {
        return object().put("type", type);
    }

    static ObjectNode object() {
        return Payloads.JSON.createObjectNode();
    }

    private static PrintStream lines(Path file) throws IOException {
        return new PrintStream(Files.newOutputStream(file), false, StandardCharsets.UTF_8);
    }
}
