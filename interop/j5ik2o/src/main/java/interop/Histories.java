package interop;

import static interop.Fixtures.note;
import static interop.Fixtures.object;
import static interop.Fixtures.payload;
import static interop.Fixtures.tagged;
import static interop.Fixtures.text;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * The histories in the fixtures: a chapter for each way to build keys, and one for each kind of
 * table with its own rules.
 *
 * <p>Guarantees: except in the chapter collisions, no two ids of a chapter have the same keys. Some
 * keys contain little of an id, so each history has its own prefix.
 */
final class Histories {
    static final String SNAPSHOTS = "snapshots-1";

    private static final String JOURNAL = "dynamo-db-journal.";
    private static final String SNAPSHOT = "dynamo-db-snapshot.";
    private static final String CLASSES = "com.github.j5ik2o.akka.persistence.dynamodb.";
    private static final String STRIPPED = "a8d46579bc2f4caf8c3b8dc2db984227";

    private Histories() {}

    static void all(Fixtures to) throws IOException {
        to.chapter("pid-body", false, keys("PersistenceIdBased", "PersistenceIdWithSeqNr"), it -> {
            common(it);
            payloads(it);
            snapshots(it);
            // The body is missing, in the second id the prefix too. The plugin needs both.
            it.fails("counter-", append());
            it.fails("-", append());
        });
        to.chapter("pid-seqnr", false, keys("PersistenceIdBased", "SeqNr"), it -> {
            common(it);
            it.append("bare-", 2);
            it.fails("-", append());
        });
        to.chapter("seq-body", false, keys("SequenceNumberBased", "PersistenceIdWithSeqNr"), it -> {
            common(it);
            it.append("long-1", 66); // more events than shards
            it.fails("counter-", append());
            it.fails("-", append());
        });
        to.chapter("seq-seqnr", false, keys("SequenceNumberBased", "SeqNr"), it -> {
            common(it);
            it.append("bare-", 2);
            it.append("-", 2);
        });
        to.chapter("collisions", false, keys("PersistenceIdBased", "PersistenceIdWithSeqNr"), Histories::collisions);
        to.chapter("hard", false, Map.of(JOURNAL + "soft-delete", "false"), Histories::hardDeletions);
        to.chapter("other-names", false, otherNames(), Histories::common);
        to.chapter("separator", false, separator(), Histories::separators);
        to.chapter(
                "legacy", true,
                Map.of(
                        JOURNAL + "columns-def.sort-key-column-name", "sequence-nr",
                        JOURNAL + "partition-key-resolver-class-name",
                        CLASSES + "journal.PartitionKeyResolver$SequenceNumberBased",
                        SNAPSHOT + "legacy-table-format", "true"),
                it -> {
                    common(it);
                    snapshots(it);
                });
        for (String version : List.of("v1", "v2")) {
            to.states(version, Histories::states);
        }
    }

    private static Map<String, String> keys(String partition, String sort) {
        Map<String, String> keys = new HashMap<>();
        for (String plugin : List.of("journal", "snapshot")) {
            String resolver = "dynamo-db-" + plugin + ".%s-key-resolver-class-name";
            keys.put(resolver.formatted("partition"), CLASSES + plugin + ".PartitionKeyResolver$" + partition);
            keys.put(resolver.formatted("sort"), CLASSES + plugin + ".SortKeyResolver$" + sort);
        }
        return keys;
    }

    /** Changes every name and number that a table's layout depends on. */
    private static Map<String, String> otherNames() {
        Map<String, String> names = new HashMap<>(Map.of(
                JOURNAL + "get-journal-rows-index-name", "rows",
                SNAPSHOT + "get-snapshot-rows-index-name", "rows",
                JOURNAL + "tag-separator", ";"));
        for (String section : List.of(JOURNAL, SNAPSHOT)) {
            names.put(section + "shard-count", "1024");
            for (String column : List.of("partition-key", "sort-key", "persistence-id", "sequence-nr", "tags")) {
                names.put(section + "columns-def." + column + "-column-name", "my_" + column);
            }
        }
        for (String column : List.of("deleted", "message", "ordering")) {
            names.put(JOURNAL + "columns-def." + column + "-column-name", "my_" + column);
        }
        for (String column : List.of("snapshot", "created")) {
            names.put(SNAPSHOT + "columns-def." + column + "-column-name", "my_" + column);
        }
        return names;
    }

    private static Map<String, String> separator() {
        Map<String, String> settings = keys("PersistenceIdBased", "PersistenceIdWithSeqNr");
        settings.put(JOURNAL + "persistence-id-separator", "#");
        settings.put(SNAPSHOT + "persistence-id-separator", "#");
        return settings;
    }

    private static void separators(Fixtures it) {
        for (String id : List.of("my#1", "a#b#c", "#x", "a##b", "日本#😀", "Cart#user-1", "my-1")) {
            it.append(id, 3);
            it.delete(id, 1);
            it.save(id, 3, text("at 3"));
        }
        it.fails("my#", append());
    }

    private static void common(Fixtures it) {
        names(it);
        batches(it);
        tags(it);
        softDeletions(it);
        for (String id : List.of("saved-1", "日本-1", "x-😀", "saved")) {
            it.save(id, 2, text("at 2"));
            it.save(id, 10, text("at 10"));
        }
    }

    private static void names(Fixtures it) {
        List<String> names = List.of(
                "counter-875e6ce0425e4d2b8203f3b44b9b531a", "counter-" + STRIPPED, "my-1", "my-2", "my-3",
                "order-2021-0001", "uuid-550e8400-e29b-41d4-a716-446655440000", "a--b", "-x", "a", "b", "Cart|1",
                "Cart|user-1", "hash#1", "#2", "日本-1", "日本語", "x-😀", "𝒳😀-é", "y-e\u0301", "a b-c d");
        names.forEach(name -> it.append(name, 2));
    }

    private static void batches(Fixtures it) {
        it.append("batches-1", 1);
        it.batch("batches-1", 2);
        it.append("batches-1", 1);
        it.batch("batches-1", 30); // more than fits into one request
        it.batch("single-1", 1); // persistAll of one event
        it.batch("full-1", 25);
        it.append("ten-1", 12); // unpadded numbers do not sort as text
    }

    private static void tags(Fixtures it) {
        it.append(
                "tags-1",
                tagged("none"), tagged("one", "red"), tagged("two", "red", "blue"),
                tagged("four", "red", "blue", "green", "ünïcödé 😀"),
                tagged("six", "a", "b", "c", "d", "e", "f"),
                tagged("separators", "a,b", "c;d"), text("untagged"));
        it.append("tagged-1", true, List.of(tagged("first", "red"), text("second"), tagged("third", "blue")));
        it.append(
                "retagged-1",
                tagged("deleted", "red", "blue"), tagged("deleted", "a", "b", "c", "d", "e,f", "g"),
                tagged("kept", "red", "blue"));
        it.delete("retagged-1", 2);
    }

    private static void softDeletions(Fixtures it) {
        it.append("some-1", 5);
        it.delete("some-1", 3);
        it.append("one-1", 3);
        it.delete("one-1", 1);
        it.delete("one-1", 1); // again: nothing left to delete
        it.batch("cut-1", 4);
        it.delete("cut-1", 2);
        it.append("gone-1", 3);
        it.delete("gone-1", Long.MAX_VALUE);
        it.append("on-1", 3);
        it.delete("on-1", Long.MAX_VALUE);
        it.append("on-1", 2);
        it.append("many-1", 28);
        it.delete("many-1", 26);
    }

    private static void hardDeletions(Fixtures it) {
        it.append("some-1", 5);
        it.delete("some-1", 3);
        it.append("gone-1", 3);
        it.delete("gone-1", Long.MAX_VALUE);
        it.append("again-1", 3);
        it.delete("again-1", Long.MAX_VALUE);
        it.append("again-1", 2); // numbering restarts at 1
        it.append("many-1", 28);
        it.delete("many-1", 26);
        it.append("saved-1", 4);
        it.save("saved-1", 4, text("at 4"));
        it.delete("saved-1", 4);
        it.append("one-1", 3);
        it.fails("one-1", object().put("do", "delete").put("to", 1));
        it.fails("none-1", object().put("do", "delete").put("to", 1));
    }

    /** Different ids with the same keys: the later event overwrites the earlier one. */
    private static void collisions(Fixtures it) {
        it.append("a", 3);
        it.append("n", 2);
        it.append("order-2021-0001", 2);
        it.append("order-2021-0012", 1);
        it.save("a", 1, text("of a"));
        it.save("n", 1, text("of n"));
    }

    private static void payloads(Fixtures it) {
        it.append(
                "payloads-1",
                text(""), text("text"), text("ünïcödé 😀 \u0000 \n"),
                payload("bytes").put("value", new byte[0]), payload("bytes").put("value", new byte[] {0, 1, -1, -128}),
                payload("bytestring").put("value", new byte[] {0, 1, -1, -128}),
                payload("long").put("value", 0L), payload("long").put("value", 1794747709115L),
                payload("long").put("value", Long.MIN_VALUE), payload("long").put("value", Long.MAX_VALUE),
                payload("int").put("value", 0), payload("int").put("value", -2),
                payload("int").put("value", Integer.MAX_VALUE),
                payload("boolean").put("value", true), payload("boolean").put("value", false),
                note("json", "json ünïcödé 😀", 1), note("cbor", "cbor ünïcödé 😀", 2), note("versioned", "versioned", 3),
                note("json", "long ".repeat(8_000), 4), // large enough for Jackson to compress it
                payload("java").put("value", "java"), payload("custom").put("value", "custom"),
                payload("protobuf").put("value", "protobuf"), payload("optional").put("value", "optional"));
    }

    private static void snapshots(Fixtures it) {
        it.append(SNAPSHOTS, 30);
        it.save(SNAPSHOTS, 10, text("at 10"));
        long then = it.save(SNAPSHOTS, 20, text("at 20, overwritten below"));
        it.save(SNAPSHOTS, 30, text("at 30"));
        it.save(SNAPSHOTS, 20, text("at 20, again"));
        long late = it.save(SNAPSHOTS, 15, text("at 15, newest in time"));
        it.lookedFor(object().put("maxSequenceNr", 14));
        it.lookedFor(object().put("maxSequenceNr", 29));
        it.lookedFor(object().put("minSequenceNr", 11).put("maxSequenceNr", 19));
        it.lookedFor(object().put("minSequenceNr", 16).put("maxSequenceNr", 19));
        it.lookedFor(object().put("maxTimestamp", then));
        it.lookedFor(object().put("maxTimestamp", late - 1));
        it.lookedFor(object().put("minTimestamp", late + 1));
        it.lookedFor(object().put("maxSequenceNr", 30).put("maxTimestamp", then));
        it.lookedFor(object().put("maxSequenceNr", 14).put("maxTimestamp", then));

        ObjectNode delivery = payload("delivery");
        delivery.putObject("value")
                .put("current", 5)
                .put("delivery", 4)
                .put("destination", "akka://interop/user/receiver")
                .put("message", "message");
        List<ObjectNode> payloads = List.of(
                text(""), payload("bytes").put("value", new byte[] {0, 1, -1, -128}), payload("long").put("value", -1L),
                note("json", "json", 1), note("cbor", "cbor", 2), payload("java").put("value", "java"),
                payload("custom").put("value", "custom"), payload("protobuf").put("value", "protobuf"), delivery);
        for (int i = 0; i < payloads.size(); i++) {
            it.save("payload-" + i, 7, payloads.get(i));
        }
        it.append("deleted-1", 3);
        for (int at = 1; at <= 3; at++) {
            it.save("deleted-1", at, text("at " + at));
        }
        it.ask("deleted-1", object().put("do", "delete-snapshot").put("at", 3));
        it.ask("deleted-1", object().put("do", "delete-snapshots").put("maxSequenceNr", 1));
    }

    private static void states(Fixtures it) {
        for (String id : List.of("my-1", "my-2", "日本-1", "x-😀", "Cart|1", "order-2021-0001", "order-2021-0012")) {
            it.put(id, 1, text("state of " + id), "");
        }
        it.put("tagged-1", 1, text("tagged"), "red");
        it.put("tagged-2", 1, text("separators are left alone"), "a,b");
        for (int revision = 1; revision <= 3; revision++) {
            it.put("often-1", revision, text("revision " + revision), "");
        }
        it.put("json-1", 1, note("json", "json", 1), "");
        it.put("cbor-1", 1, note("cbor", "cbor", 2), "");
        it.put("java-1", 1, payload("java").put("value", "java"), "");
        it.put("long-1", 1, payload("long").put("value", 5L), "");
        it.put("bytes-1", 1, payload("bytes").put("value", new byte[] {0, 1, -1}), "");
        it.put("custom-1", 1, payload("custom").put("value", "custom"), "");
        it.put("protobuf-1", 1, payload("protobuf").put("value", "protobuf"), "");
        it.put("deleted-1", 1, text("deleted"), "");
        it.deleteState("deleted-1");
        it.put("again-1", 4, text("deleted"), "");
        it.deleteState("again-1");
        it.put("again-1", 1, text("and put again"), "");
    }

    private static ObjectNode append() {
        ObjectNode request = object().put("do", "append");
        request.putArray("events").add(text("never"));
        return request;
    }
}
