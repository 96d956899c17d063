package interop;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;

/**
 * Serves the journal and snapshot store of pekko-persistence-dynamodb over a line protocol. A
 * request is a JSON object on a line of standard input; its response is a JSON object on a line of
 * standard output. Logs go to standard error. The program exits at the end of the input.
 *
 * <pre>
 * journal ENDPOINT [PATH=VALUE]…     settings as in application.conf, by their full path
 *
 * open              settings {PATH: VALUE}      a new session; overrides the command line
 * create-tables
 * append            persistenceId, events [{type, value}], atomic (false)     → sequenceNrs
 * replay            persistenceId, to, max                      → events [{…}], highest
 * query             persistenceId, from, to                     → events, from the read journal
 * highest           persistenceId                               → highest
 * delete            persistenceId, to
 * save-snapshot     persistenceId, snapshot {type, value}, at   → sequenceNr, timestamp
 * load-snapshot     persistenceId, CRITERIA                     → snapshot {…} or null
 * delete-snapshot   persistenceId, at
 * delete-snapshots  persistenceId, CRITERIA
 * ids               scan (false)                                → persistenceIds
 * items             table, journal or snapshot                  → items, in DynamoDB JSON
 * </pre>
 *
 * The field {@code do} names the request. CRITERIA are maxSequenceNr, maxTimestamp, minSequenceNr
 * and minTimestamp; an omitted one does not restrict.
 *
 * <p>Guarantees: one response per line, in order, with {@code "ok": true}; or {@code "ok": false}
 * with {@code error}, a kind such as persist-rejected, and {@code message}.
 *
 * <p>Never: swallows a failure, or starts a request before the previous response is complete.
 */
final class Main {
    private Main() {}

    public static void main(String[] args) throws IOException {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        // Loggers may print to standard output, which is reserved for the protocol.
        System.setOut(System.err);
        Map<String, Object> settings = settings(args);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Session session = new Session(settings);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            ObjectNode answer;
            try {
                JsonNode request = Payloads.JSON.readTree(line);
                if (request.path("do").asText().equals("open")) {
                    Session next = new Session(Session.settings(settings, request.path("settings")));
                    session.close();
                    session = next;
                    answer = Payloads.JSON.createObjectNode().put("ok", true);
                } else {
                    answer = session.answer(request);
                }
            } catch (JsonProcessingException e) {
                answer = failed(Failure.invalid("invalid JSON: " + e.getOriginalMessage()));
            } catch (Failure failure) {
                answer = failed(failure);
            } catch (RuntimeException e) {
                e.printStackTrace();
                answer = failed(new Failure("failed", e));
            }
            out.println(answer);
        }
        session.close();
        // The plugin's AWS clients leave threads behind, which would keep the JVM running.
        System.exit(0);
    }

    private static ObjectNode failed(Failure failure) {
        ObjectNode answer = Payloads.JSON
                .createObjectNode()
                .put("ok", false)
                .put("error", failure.kind)
                .put("message", failure.getMessage());
        return answer.setAll(failure.facts);
    }

    static Map<String, Object> settings(String[] args) {
        if (args.length == 0) {
            System.err.println("usage: journal ENDPOINT [PATH=VALUE]...");
            System.exit(2);
        }
        Map<String, Object> settings = new HashMap<>();
        settings.put("dynamodb-journal.endpoint", args[0]);
        for (int i = 1; i < args.length; i++) {
            String[] setting = args[i].split("=", 2);
            if (setting.length < 2) {
                System.err.println("not a setting of the form PATH=VALUE: " + args[i]);
                System.exit(2);
            }
            settings.put(setting[0], setting[1]);
        }
        return settings;
    }
}
