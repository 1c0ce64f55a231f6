/* How the lines for an agent reach it: each is taken once and in order,
 * whichever process dies, and how often.
 *
 *	worker ──▶ RAW ──▶ file ──shim──▶ FIFO, which the agent holds open
 *
 * The worker appends bytes to RAW, and then to the file; the next worker appends
 * what the file lacks. The shim saves a phase before it acts: Body, the line
 * without its newline, End, the newline, Idle. The next shim cannot know how
 * much of that was written. Locks exclude two workers, and two shims. A line is
 * some parts of a body, and a newline. The agent ignores a line that is not valid.
 *
 * Checked, for all interleavings within the bounds below:
 *
 *	nothing is fed that is not in RAW       the assertion of take
 *	no duplicate, no disorder, and a        the assertions of commit
 *	phase before End: the line was not taken
 *	no loss                                 the assertion of init
 *	progress                                the formula done
 *
 * To check that each step is needed, remove it: define NO_RAW_FIRST, NO_POISON,
 * NO_NEWLINE_AGAIN or NO_END.
 */

#ifndef LINES
#define LINES 2
#endif
#ifndef DEATHS
#define DEATHS 3 /* kill -9 of the worker or the shim */
#endif
#define PARTS 2  /* of the body of a line */
#define SIZE (PARTS + 1)
#define ALL (LINES * SIZE)

mtype = { Idle, Body, End };

byte raw, file;     /* how many bytes they hold */
byte at;            /* offset of the line that the shim feeds next, and its phase: */
mtype phase = Idle; /* both are in a file that survives the shim */
byte deaths;

byte taken;       /* lines that the agent has accepted */
byte line, parts; /* what it has read since the last newline: that many parts of this line */
bool bad;         /* and something else */

inline mayDie() {
	if
	:: skip
	:: deaths < DEATHS -> deaths++; goto start
	fi
}

/* The agent reads a byte of a body: the one at this offset of the file. */
inline take(offset) {
	assert(offset < raw);
	if
	:: !bad && parts == 0 && offset % SIZE == 0 -> line = offset / SIZE; parts = 1
	:: !bad && parts > 0 && offset == line * SIZE + parts -> parts++
	:: else -> bad = true
	fi
}

/* The agent reads a newline. */
inline commit() {
	if
	:: !bad && parts == PARTS ->
		assert(line == taken);
#ifndef NO_END
		assert(phase == End && at == line * SIZE);
#endif
		taken++
	:: else
	fi;
	line = 0; parts = 0; bad = false
}

proctype worker() {
start:
	do
	:: atomic { raw == ALL && file == ALL -> break }
	:: atomic { raw < ALL -> raw++; mayDie() }
#ifdef NO_RAW_FIRST
	:: atomic { file < ALL -> file++; mayDie() }
#else
	:: atomic { file < raw -> file++; mayDie() }
#endif
	od
}

proctype shim() {
	byte next;
start:
	atomic {
		next = at;
		if
#ifdef NO_NEWLINE_AGAIN
		:: phase == End -> phase = Idle; at = at + SIZE
#endif
#ifndef NO_POISON
		:: phase == Body -> bad = true; mayDie(); commit(); mayDie()
#endif
		:: else
		fi
	}
	do
	:: atomic { phase == Idle && at == ALL -> break }
	:: atomic { phase == Idle && file >= at + SIZE -> phase = Body; next = at; mayDie() }
	:: atomic { phase == Body && next < at + PARTS -> take(next); next++; mayDie() }
#ifdef NO_END
	:: atomic { phase == Body && next == at + PARTS -> commit(); mayDie(); phase = Idle; at = at + SIZE; mayDie() }
#else
	:: atomic { phase == Body && next == at + PARTS -> phase = End; mayDie() }
	:: atomic { phase == End -> commit(); mayDie(); phase = Idle; at = at + SIZE; mayDie() }
#endif
	od
}

init {
	atomic { run worker(); run shim() }
	_nr_pr == 1 -> assert(taken == LINES)
}

ltl done { <> (taken == LINES) }
