package interop;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

/** Why a request has no answer: a kind that a caller can tell apart, and what to add to the answer. */
final class Failure extends RuntimeException {
    private static final long serialVersionUID = 1;
    final String kind;
    final transient ObjectNode facts = Payloads.JSON.createObjectNode();

    Failure(String kind, String message, Throwable cause) {
        super(message, cause);
        this.kind = kind;
    }

    Failure(String kind, Throwable cause) {
        this(kind, chain(cause), cause);
    }

    /** With all that caused it: the plugin's own exception does not say what DynamoDB said. */
    static String chain(Throwable cause) {
        StringBuilder message = new StringBuilder(String.valueOf(cause));
        for (Throwable next = cause.getCause(); next != null; next = next.getCause()) {
            message.append("; caused by ").append(next);
        }
        return message.toString();
    }

    static Failure invalid(String message) {
        return new Failure("invalid", message, null);
    }

    static JsonNode required(JsonNode request, String name) {
        JsonNode value = request.get(name);
        if (value == null || value.isNull()) {
            throw invalid("the request has no " + name);
        }
        return value;
    }

    static String text(JsonNode request, String name) {
        JsonNode value = required(request, name);
        if (!value.isTextual()) {
            throw invalid(name + " must be a string");
        }
        return value.textValue();
    }

    static long number(JsonNode request, String name) {
        JsonNode value = required(request, name);
        if (!value.canConvertToLong() || !value.isIntegralNumber()) {
            throw invalid(name + " must be an integer of 64 bits");
        }
        return value.longValue();
    }

    static long number(JsonNode request, String name, long otherwise) {
        return request.has(name) ? number(request, name) : otherwise;
    }
}
