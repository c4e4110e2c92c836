/* Text that others wrote, before it is shown: names, reasons, paths and sentences may hold control
 * characters that move the cursor, set the title or draw lines that nobody said. Only `muster logs`
 * and what follows a job print what a program wrote as it is.
 */
#ifndef CLI_ESCAPE_H
#define CLI_ESCAPE_H

#include <stdbool.h>

/* Every text of a message that was received, in place: control characters (C0 but the tab, DEL, C1)
 * and those that turn the direction of text become \x1b, \n or \u202e. Lines of output are left
 * alone, and the last output that a reason tells keeps its line ends. NULL is fine. */
void escape_message(void *message);

/* malloc'd, or NULL if there is nothing to escape (or no memory). */
char *escape_text(const char *text, bool keep_lines);

#endif
