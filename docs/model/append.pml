/* The append protocol: how a worker publishes its spool to RAW, and how a
 * normalizer derives EVENTS from RAW. Each entry is stored once and in order,
 * whichever process dies, and whichever message is repeated, late or lost.
 *
 *	spool ──worker──▶ RAW ──normalizer──▶ EVENTS, checkpoint
 *
 * There are two workers on one spool, or two normalizers, without locks and
 * leases: only the fences separate them. The two halves share only RAW, which
 * only grows, so each half is checked separately: define WORKERS for the
 * first, else it is the second. A request without an answer in time may have
 * been stored, may be stored later, or may be lost; its sender restarts from
 * the state of the streams. An entry is its position in the spool, and
 * produces one event.
 *
 * With BURSTS a worker may also send two entries before the first answer, and
 * others write to RAW, too: a responder cancels the run, and another run has an
 * entry.
 *
 * Checked, for all interleavings within the bounds below:
 *
 *	no loss, no duplicate, no disorder    the assertions of rawServer and eventServer
 *	no entry after an unread one          the other assertion of rawServer
 *	no old checkpoint returns             the assertion of checkpointServer
 *	progress                              the formula done
 *
 * To check that each fence is needed, remove it: define NO_RAW_FENCE,
 * NO_RAW_RESUME, NO_BURST_FENCE, NO_BURST_ORDER, NO_EVENT_FENCE,
 * NO_EVENT_CURSOR or NO_CHECKPOINT_FENCE.
 */

#ifndef ENTRIES
#define ENTRIES 2  /* in the spool */
#endif
#ifndef DEATHS
#define DEATHS 1   /* kill -9 of any worker or normalizer */
#endif
#ifndef TROUBLES
#define TROUBLES 2 /* lost or late answers, lost requests */
#endif

mtype = { stored, refused, unanswered };

byte raw, events;          /* the streams hold the entries from 1 to this one, in order */
byte checkpoint, revision; /* all of RAW up to it is in EVENTS; number of writes */
byte deaths, troubles;

/* A request: the entry, the expected last entry of the stream, the sender, and
 * its attempt. An answer to an earlier attempt is ignored. */
#define REQUESTS [3] of { byte, byte, byte, byte }
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

/* ask sends a request; if the channel is full it waits. */
inline ask(way, what, expected) {
	atomic {
		nfull(way);
		attempt[me] = (attempt[me] + 1) % 4; /* more than the requests in flight */
		answer[me] = 0;
		way!what, expected, me, attempt[me]
	}
}

/* hear waits for the answer. It goes to start if the outcome is unknown: the
 * answer is late, or the receiver has died. */
inline hear() {
	if
	:: answer[me] == stored
	:: atomic { answer[me] == refused || answer[me] == unanswered -> goto start }
	:: atomic { answer[me] == 0 && troubles < TROUBLES -> troubles++; goto start }
	:: atomic { deaths < DEATHS -> deaths++; goto start }
	fi
}

/* SERVE is the server: fits is whether the fence accepts the request, and keep
 * stores it. A request may be lost, and so may the answer to a stored one. */
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

/* RAW has entries of the run, and one of another run. A cancel of the run is
 * stored by a third writer. */
byte last;      /* sequence of the last entry in RAW */
byte own;       /* sequence of the run's last entry */
bool cancelled; /* RAW has the cancel */
bool knows[2];  /* the worker has read it */
byte seq[2];    /* in the answer: sequence of the entry */

/* A request: the entry, the sequence of the expected last entry, the sender,
 * its attempt, the place in a burst, and whether that is its last one. A single
 * entry has the place 0. */
chan toRaw = [3] of { byte, byte, byte, byte, byte, bool };

byte burst[2]; /* the attempt of the sender's burst */
byte due[2];   /* place of the next entry of that burst; 0: it has ended */

#ifdef NO_RAW_FENCE
#define FITS true
#define FITS_FIRST true
#else
#define FITS (expected == own)
#define FITS_FIRST (expected == own && expected == last)
#endif
#ifdef NO_BURST_FENCE
#define FITS_LATER true
#else
#define FITS_LATER (expected == last)
#endif
#ifdef NO_BURST_ORDER
#define DUE true
#else
#define DUE (burst[who] == try && due[who] == place)
#endif
#define RAW_FITS (place == 0 && FITS || place == 1 && FITS_FIRST || place > 1 && DUE && FITS_LATER)

active proctype rawServer() {
	byte what, expected, who, try, place;
	bool final;
end:	do
	:: atomic {
		toRaw??what, expected, who, try, place, final ->
		if
		:: troubles < TROUBLES -> troubles++; say(who, try, unanswered)
		:: RAW_FITS ->
			assert(what == raw + 1);
			assert(!cancelled || knows[who]);
			raw = what; last++; own = last;
			if
			:: place > 0 -> burst[who] = try; due[who] = (final -> 0 : place + 1)
			:: else
			fi;
			if
			:: final -> seq[who] = last; say(who, try, stored)
			:: final && troubles < TROUBLES -> troubles++; say(who, try, unanswered)
			:: !final
			fi
		:: !(RAW_FITS) ->
			if
			:: place > 1 && burst[who] == try -> due[who] = 0
			:: else
			fi;
			say(who, try, refused)
		fi;
		what = 0; expected = 0; who = 0; try = 0; place = 0; final = 0
	}
	od
}

#ifdef BURSTS
#define ALONE (seq[me] == fence + 1)

/* Others write to RAW at any time. */
active proctype others() {
	atomic { last++; own = last; cancelled = true };
	last++
}
#else
#define ALONE false
#endif

inline send(what, expected, place, final) {
	atomic { nfull(toRaw); toRaw!what, expected, me, attempt[me], place, final }
}

inline attempted() {
	atomic { attempt[me] = (attempt[me] + 1) % 4; answer[me] = 0 }
}

/* A worker reads the end of RAW, and resumes after it. It sends a burst only if
 * nothing was stored between its last two entries. */
proctype worker(byte me) {
	byte next, fence;
	bool alone;
start:
	atomic {
#ifdef NO_RAW_RESUME
		next = 1; fence = 0;
#else
		next = raw + 1; fence = own;
#endif
		knows[me] = cancelled; alone = false
	}
	do
	:: next > ENTRIES -> break
	:: next <= ENTRIES && !alone ->
		attempted();
		send(next, fence, 0, true);
		hear();
		atomic { alone = ALONE; fence = seq[me]; next++ }
	:: next <= ENTRIES && alone ->
		attempted();
		send(next, fence, 1, next == ENTRIES);
		if
		:: next < ENTRIES -> send(next + 1, fence + 1, 2, true); next++
		:: next < ENTRIES && deaths < DEATHS -> deaths++; goto start
		:: else
		fi;
		hear();
		atomic { fence = seq[me]; next++ }
	od
}

#else

/* The result of the first half. */
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

/* A normalizer reads the end of EVENTS, and folds RAW again from the
 * checkpoint. It does not publish again what EVENTS already has. */
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
