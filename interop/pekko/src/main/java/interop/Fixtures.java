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
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Consumer;

/**
 * Writes a set of histories through the plugin. Saves all items of the tables to journal.jsonl and
 * snapshot.jsonl, and what the plugin itself replays from them to expected.jsonl.
 *
 * <pre>interop.Fixtures ENDPOINT FOLDER</pre>
 *
 * The tables must not exist yet. A line of expected.jsonl is one of
 *
 * <pre>
 * {"event":    {journal, persistenceId, sequenceNr, serializer, manifest, type, value}}
 * {"entity":   {journal, persistenceId, events, highest}}     event count, last sequence number
 * {"snapshot": {journal, persistenceId, criteria, found}}     found: the snapshot loaded, or null
 * </pre>
 *
 * Guarantees: two runs differ only in writer_uuid and in times.
 */
final class Fixtures {
    private static final String JACKSON = "pekko.serialization.jackson.";
    private static final List<JsonNode> CRITERIA = new ArrayList<>();

    private final Map<String, Object> settings;
    private final PrintStream expected;

    // State of the current chapter.
    private Session session;
    private final Set<String> ids = new TreeSet<>();

    private Fixtures(Map<String, Object> settings, PrintStream expected) {
        this.settings = settings;
        this.expected = expected;
    }

    public static void main(String[] args) throws IOException {
        PrintStream log = System.err;
        System.setOut(log);
        Path folder = Files.createDirectories(Path.of(args[1]));
        try (PrintStream expected = lines(folder.resolve("expected.jsonl"))) {
            new Fixtures(Main.settings(new String[] {args[0]}), expected).all(folder);
        } catch (Failure failure) {
            log.println(failure.kind + ": " + failure.getMessage());
            System.exit(1);
        }
        System.exit(0);
    }

    private void all(Path folder) throws IOException {
        try (Session first = new Session(settings)) {
            first.tables().create();
        }
        chapter(Map.of(), it -> {
            it.numbers();
            it.batches();
            it.deletions();
            it.names();
            it.payloads();
            it.snapshots();
            it.oldFormat();
        });
        chapter(
                Map.of(
                        JACKSON + "jackson-json.compression.compress-larger-than", "1 KiB",
                        JACKSON + "jackson-cbor.compression.compress-larger-than", "1 KiB",
                        JACKSON + "jackson-cbor.compression.algorithm", "gzip"),
                it -> it.compressed("gzip"));
        chapter(
                Map.of(
                        JACKSON + "jackson-json.compression.compress-larger-than", "1 KiB",
                        JACKSON + "jackson-json.compression.algorithm", "lz4",
                        JACKSON + "jackson-cbor.compression.compress-larger-than", "1 KiB",
                        JACKSON + "jackson-cbor.compression.algorithm", "lz4"),
                it -> it.compressed("lz4"));
        // Strings as Akka 2.5 stored them.
        chapter(
                Map.of("pekko.actor.serialization-bindings.\"java.lang.String\"", "java"),
                it -> it.append("java-strings", "plain", "ünïcödé 😀", ""));
        chapter(
                Map.of("dynamodb-journal.journal-name", "other", "dynamodb-journal.sequence-shards", "3"),
                Fixtures::otherJournal);
        try (Session last = new Session(settings)) {
            for (String table : List.of("journal", "snapshot")) {
                try (PrintStream out = lines(folder.resolve(table + ".jsonl"))) {
                    last.tables().items(table).forEach(item -> out.println(object().set("Item", item)));
                }
            }
        }
    }

    /** Lengths around multiples of 100, appended one event at a time. */
    private void numbers() {
        append("one", 1);
        append("ninety-nine", 99);
        append("hundred", 100);
        append("singles", 250);
        // Long enough for the markers of 1100 and 1200 to overwrite those of 100 and 200.
        append("wrapped", 1210);
        delete("wrapped", 1204);
    }

    private void batches() {
        append("batches", 94);
        batch("batches", 11); // 95 to 105
        append("batches", 93);
        batch("batches", 5); // 199 to 203
        batch("batch-first", 99);
        batch("batch-first", 3); // starts at a multiple of 100
        batch("batch-long", 205); // only one marker, for 200
        delete("batch-long", 195);
        append("batch-two", 1);
        batch("batch-two", 2);
        batch("batch-one", 1); // persistAll of a single event

        // Partial writes: five of the six batches lose one event each.
        append("torn", 20);
        for (int i = 0; i < 5; i++) {
            batch("torn", 3);
        }
        append("torn", 1);
        batch("torn", 3);
        for (long lost : new long[] {22, 24, 32, 35, 39}) {
            session.tables().lose("torn", lost);
        }
    }

    private void deletions() {
        append("deleted-to-50", 160);
        delete("deleted-to-50", 50);
        append("deleted-to-150", 160);
        delete("deleted-to-150", 50);
        delete("deleted-to-150", 150);
        for (String id : List.of("deleted-to-end", "deleted-and-on")) {
            append(id, 160);
            delete(id, 50);
            delete(id, 150);
            delete(id, Long.MAX_VALUE);
        }
        append("deleted-and-on", 3);
        append("deleted-at-99", 105);
        delete("deleted-at-99", 99);
        append("deleted-in-batch", 4);
        batch("deleted-in-batch", 4);
        append("deleted-in-batch", 2);
        delete("deleted-in-batch", 6);
    }

    private void names() {
        List<String> names = List.of(
                "-", "|", ":", "a-", "-a", "a-0", "a-b-1", "Cart|1", "Cart|user-1|2", "urn:x:1", "a b", "P-x", "SH-x-1",
                "journal-P-a-0", "é", "e\u0301", "日本語", "😀", "𝒳-😀|1");
        names.forEach(name -> append(name, 2));
    }

    private void payloads() {
        append(
                "payloads",
                text(""), text("text"), text("ünïcödé 😀 \u0000 \n"),
                payload("bytes").put("value", new byte[0]), payload("bytes").put("value", new byte[] {0, 1, -1, -128}),
                payload("bytestring").put("value", new byte[] {0, 1, -1, -128}),
                payload("long").put("value", 0L), payload("long").put("value", 1794747709115L),
                payload("long").put("value", Long.MIN_VALUE), payload("long").put("value", Long.MAX_VALUE),
                payload("int").put("value", 0), payload("int").put("value", -2),
                payload("int").put("value", Integer.MAX_VALUE),
                payload("boolean").put("value", true), payload("boolean").put("value", false),
                note("json", "json ünïcödé 😀", 1), note("cbor", "cbor ünïcödé 😀", 2), note("versioned", "versioned", 3),
                payload("java").put("value", "java"), payload("custom").put("value", "custom"),
                payload("protobuf").put("value", "protobuf"), payload("optional").put("value", "optional"));
        ObjectNode tagged = payload("tagged");
        tagged.putObject("value").put("event", "tagged").putArray("tags").add("red").add("blue");
        append("payload-tagged", tagged);
    }

    private void compressed(String how) {
        append(
                how,
                note("json", "short", 1), note("json", "long ".repeat(400), 2),
                note("cbor", "short", 3), note("cbor", "long ".repeat(400), 4));
        save(how, 2, note("json", "long ".repeat(400), 5));
        save(how, 4, note("cbor", "long ".repeat(400), 6));
    }

    private void snapshots() {
        append("snapshots", 30);
        save("snapshots", 10, text("at 10"));
        long then = save("snapshots", 20, text("at 20, overwritten below"));
        save("snapshots", 30, text("at 30"));
        save("snapshots", 20, text("at 20, again"));
        long late = save("snapshots", 15, text("at 15, newest in time"));
        CRITERIA.add(object().put("maxSequenceNr", 14));
        CRITERIA.add(object().put("maxSequenceNr", 29));
        CRITERIA.add(object().put("minSequenceNr", 11).put("maxSequenceNr", 19));
        CRITERIA.add(object().put("maxTimestamp", then));
        CRITERIA.add(object().put("maxTimestamp", late - 1));
        CRITERIA.add(object().put("minTimestamp", late + 1));
        CRITERIA.add(object().put("maxSequenceNr", 30).put("maxTimestamp", then));
        CRITERIA.add(object().put("maxSequenceNr", 14).put("maxTimestamp", then));

        ObjectNode delivery = payload("delivery");
        delivery.putObject("value")
                .put("current", 5)
                .put("delivery", 4)
                .put("destination", "pekko://interop/user/receiver")
                .put("message", "message");
        List<ObjectNode> payloads = List.of(
                text(""), payload("bytes").put("value", new byte[] {0, 1, -1, -128}), payload("long").put("value", -1L),
                note("json", "json", 1), note("cbor", "cbor", 2), payload("java").put("value", "java"),
                payload("custom").put("value", "custom"), payload("protobuf").put("value", "protobuf"), delivery);
        for (int i = 0; i < payloads.size(); i++) {
            save("snapshot-payload-" + i, 7, payloads.get(i));
        }
        append("snapshot-deleted", 3);
        for (int at = 1; at <= 3; at++) {
            save("snapshot-deleted", at, text("at " + at));
        }
        ask("snapshot-deleted", object().put("do", "delete-snapshot").put("at", 3));
        ask("snapshot-deleted", object().put("do", "delete-snapshots").put("maxSequenceNr", 1));
        save("𝒳-😀|1", 2, text("at 2"));
    }

    private void oldFormat() {
        OldFormat old = new OldFormat(session);
        String id = "old-format";
        ids.add(id);
        old.event(id, 1, "text", null);
        old.event(id, 2, Payloads.read(note("json", "json", 1)), null);
        old.event(id, 3, Payloads.read(payload("java").put("value", "java")), null);
        old.event(id, 4, "first of two", new OldFormat.Batch(0, 1));
        old.event(id, 5, "second of two", new OldFormat.Batch(1, 1));
        old.snapshot(id, 2, 1_500_000_000_000L, "text");
        old.snapshot(id, 4, 1_500_000_000_001L, Payloads.read(note("json", "json", 1)));
        append(id, 2); // the current plugin continues
    }

    private void otherJournal() {
        append("one", 2); // an id that the first journal also has
        append("three-shards", 305);
        delete("three-shards", 302);
        save("three-shards", 300, text("at 300"));
    }

    // Helpers that write the histories above and read them back.

    private void chapter(Map<String, Object> over, Consumer<Fixtures> write) {
        Map<String, Object> all = Session.settings(settings, Payloads.JSON.valueToTree(over));
        ids.clear();
        CRITERIA.clear();
        try (Session writing = new Session(all)) {
            session = writing;
            write.accept(this);
        }
        // A new actor system, as after a restart.
        try (Session reading = new Session(all)) {
            session = reading;
            String journal = (String) all.getOrDefault("dynamodb-journal.journal-name", "journal");
            ids.forEach(id -> expect(journal, id));
        }
    }

    private void expect(String journal, String id) {
        ObjectNode about = object().put("journal", journal).put("persistenceId", id);
        JsonNode replay = ask(id, object().put("do", "replay"));
        for (JsonNode event : replay.get("events")) {
            ObjectNode line = about.deepCopy().setAll((ObjectNode) event);
            expected.println(object().set("event", line.without("class")));
        }
        ObjectNode entity = about.deepCopy().put("events", replay.get("events").size());
        expected.println(object().set("entity", entity.set("highest", replay.get("highest"))));
        expectSnapshot(about, object());
        if (id.equals("snapshots")) {
            CRITERIA.forEach(criteria -> expectSnapshot(about, criteria));
        }
    }

    private void expectSnapshot(ObjectNode about, JsonNode criteria) {
        String id = about.get("persistenceId").textValue();
        ObjectNode load = object().put("do", "load-snapshot");
        load.setAll((ObjectNode) criteria);
        JsonNode found = ask(id, load).get("snapshot");
        if (found instanceof ObjectNode one) {
            one.remove("class");
        } else if (criteria.isEmpty()) {
            return; // an id without snapshots
        }
        ObjectNode line = about.deepCopy().set("criteria", criteria);
        expected.println(object().set("snapshot", line.set("found", found)));
    }

    private void append(String id, int count) {
        append(id, false, texts(count));
    }

    private void batch(String id, int count) {
        append(id, true, texts(count));
    }

    private void append(String id, String... texts) {
        append(id, false, Arrays.stream(texts).map(Fixtures::text).toList());
    }

    private void append(String id, ObjectNode... events) {
        append(id, false, List.of(events));
    }

    private void append(String id, boolean atomic, List<ObjectNode> events) {
        ObjectNode request = object().put("do", "append").put("atomic", atomic);
        ArrayNode all = request.putArray("events");
        events.forEach(all::add);
        ask(id, request);
    }

    private void delete(String id, long to) {
        ask(id, object().put("do", "delete").put("to", to));
    }

    /** Returns the snapshot's timestamp, after waiting so that the next one differs. */
    private long save(String id, long at, ObjectNode snapshot) {
        ObjectNode request = object().put("do", "save-snapshot").put("at", at);
        long time = ask(id, request.set("snapshot", snapshot)).get("timestamp").longValue();
        while (System.currentTimeMillis() <= time + 1) {
            Thread.onSpinWait();
        }
        return time;
    }

    private JsonNode ask(String id, ObjectNode request) {
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

    private static ObjectNode text(String value) {
        return payload("string").put("value", value);
    }

    private static ObjectNode note(String type, String text, long number) {
        ObjectNode note = payload(type);
        note.putObject("value").put("text", text).put("number", number);
        return note;
    }

    private static ObjectNode payload(String type) {
        return object().put("type", type);
    }

    private static ObjectNode object() {
        return Payloads.JSON.createObjectNode();
    }

    private static PrintStream lines(Path file) throws IOException {
        return new PrintStream(Files.newOutputStream(file), false, StandardCharsets.UTF_8);
    }
}
