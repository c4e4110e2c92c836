/* Escapes text from others before it is shown. Names, reasons, paths and sentences may contain
 * control characters that move the cursor, set the title or draw false lines. Only `muster logs`
 * and commands that follow a job print a program's output unchanged. */
#ifndef CLI_ESCAPE_H
#define CLI_ESCAPE_H

#include <stdbool.h>

/* Escape every text of a received message, in place. Control characters (C0 except the tab, DEL,
 * C1) and those that change the direction of text become \x1b, \n or \u202e. Lines of output stay
 * unchanged, and the last output in a reason keeps its line ends. NULL is allowed. */
void escape_message(void *message);

/* malloc'd, or NULL if there is nothing to escape (or no memory). */
char *escape_text(const char *text, bool keep_lines);

#endif
