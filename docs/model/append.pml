/* The append protocol: how a worker's spool comes into RAW, and RAW into
 * EVENTS, each entry once and in order, whoever dies when, and whatever is
 * repeated, delayed or lost on the way.
 *
 *	spool ──worker──▶ RAW ──normalizer──▶ EVENTS, checkpoint
 *
 * There are two workers on one spool, or two normalizers, as if no lock and no
 * lease kept them apart: only the fences do. The two halves meet in RAW alone,
 * which grows and does nothing else, so each is checked for itself: define
 * WORKERS for the first, else it is the second. A request without an answer in
 * time may have been stored, may be stored later, or may be lost; who sent it
 * starts over from what the streams hold. An entry is its place in the spool,
 * and gives one event.
 *
 * Shown, for all interleavings within the bounds below:
 *
 *	no loss, no duplicate, no disorder    the assertions of rawServer and eventServer
 *	no old checkpoint comes back          the assertion of checkpointServer
 *	progress                              the formula done
 *
 * To see that each fence is needed, leave it out: define NO_RAW_FENCE,
 * NO_RAW_RESUME, NO_EVENT_FENCE, NO_EVENT_CURSOR or NO_CHECKPOINT_FENCE.
 */

#ifndef ENTRIES
#define ENTRIES 2  /* in the spool */
#endif
#ifndef DEATHS
#define DEATHS 1   /* kill -9, of whichever worker or normalizer */
#endif
#ifndef TROUBLES
#define TROUBLES 2 /* answers that are lost or late, requests that are lost */
#endif

mtype = { stored, refused, unanswered };

byte raw, events;          /* the streams hold the entries 1 to this one, in order */
byte checkpoint, revision; /* all of RAW up to it is in EVENTS; how often it was written */
byte deaths, troubles;

/* A request: the entry, what the stream is expected to end with, who asks, and
 * in which attempt. An answer to an earlier attempt is nobody's. */
#define REQUESTS [3] of { byte, byte, byte, byte }
chan toRaw = REQUESTS;
chan toEvents = REQUESTS;
chan toCheckpoint = REQUESTS;

byte attempt[2];
mtype answer[2]; /* 0: none yet */

inline say(who, try, what) {
	if
	:: attempt[who] == try -> answer[who] = what
	:: else
	fi
}

/* ask sends a request; where the way is full it waits. */
inline ask(way, what, expected) {
	atomic {
		nfull(way);
		attempt[me] = (attempt[me] + 1) % 4; /* more than there are requests on the way */
		answer[me] = 0;
		way!what, expected, me, attempt[me]
	}
}

/* hear waits for the answer, and goes to start where nobody knows what was
 * done: the answer does not come in time, or its receiver is dead by then. */
inline hear() {
	if
	:: answer[me] == stored
	:: atomic { answer[me] == refused || answer[me] == unanswered -> goto start }
	:: atomic { answer[me] == 0 && troubles < TROUBLES -> troubles++; goto start }
	:: atomic { deaths < DEATHS -> deaths++; goto start }
	fi
}

/* serve is a server's part: fits says whether the fence lets the request by,
 * and keep stores it. A request may be lost, and so may the answer to one that
 * was stored. */
#define SERVE(way, fits, keep) \
end:	do \
	:: atomic { \
		way??what, expected, who, try -> \
		if \
		:: troubles < TROUBLES -> troubles++; say(who, try, unanswered) \
		:: fits -> \
			keep; \
			if \
			:: say(who, try, stored) \
			:: troubles < TROUBLES -> troubles++; say(who, try, unanswered) \
			fi \
		:: !(fits) -> say(who, try, refused) \
		fi; \
		what = 0; expected = 0; who = 0; try = 0 \
	} \
	od

#ifdef NO_RAW_FENCE
#define RAW_FITS true
#else
#define RAW_FITS (expected == raw)
#endif
#ifdef NO_EVENT_FENCE
#define EVENT_FITS true
#else
#define EVENT_FITS (expected == events)
#endif
#ifdef NO_CHECKPOINT_FENCE
#define CHECKPOINT_FITS true
#else
#define CHECKPOINT_FITS (expected == revision)
#endif

#ifdef WORKERS

active proctype rawServer() {
	byte what, expected, who, try;
	SERVE(toRaw, RAW_FITS, assert(what == raw + 1); raw = what)
}

/* A worker reads how far RAW is, and goes on behind that. */
proctype worker(byte me) {
	byte next;
start:
#ifdef NO_RAW_RESUME
	next = 1;
#else
	next = raw + 1;
#endif
	do
	:: next > ENTRIES -> break
	:: else ->
		ask(toRaw, next, next - 1);
		hear();
		next++
	od
}

#else

/* What the first half comes to. */
active proctype growing() {
	do
	:: raw < ENTRIES -> raw++
	:: else -> break
	od
}

active proctype eventServer() {
	byte what, expected, who, try;
	SERVE(toEvents, EVENT_FITS, assert(what == events + 1 && what <= raw); events = what)
}

active proctype checkpointServer() {
	byte what, expected, who, try;
	SERVE(toCheckpoint, CHECKPOINT_FITS, assert(what >= checkpoint && what <= events); checkpoint = what; revision++)
}

/* A normalizer reads where EVENTS ends, and folds RAW again from the
 * checkpoint on. What EVENTS has already it does not publish again. */
proctype normalizer(byte me) {
	byte at, cursor, end, kept, rev;
start:
	atomic {
		end = events; at = checkpoint; kept = checkpoint; rev = revision;
#ifdef NO_EVENT_CURSOR
		cursor = 0
#else
		cursor = events
#endif
	}
	do
	:: kept == ENTRIES -> break
	:: at < raw ->
		at++;
		if
		:: at <= cursor
		:: else ->
			ask(toEvents, at, end);
			hear();
			end++
		fi
	:: kept < at ->
		ask(toCheckpoint, at, rev);
		hear();
		kept = at; rev++
	od
}

#endif

init {
	atomic {
#ifdef WORKERS
		run worker(0); run worker(1)
#else
		run normalizer(0); run normalizer(1)
#endif
	}
}

#ifdef WORKERS
ltl done { <> (raw == ENTRIES) }
#else
ltl done { <> (events == ENTRIES && checkpoint == ENTRIES) }
#endif
