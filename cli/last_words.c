#include "cli/last_words.h"

#include <string.h>

#include "cli/table.h"

void print_last_words(FILE *out, const char *indent, const char *text)
{
    while (*text) {
        size_t size = strcspn(text, "\n");
        fprintf(out, "%s%s│%s ", indent, colour_dim(out), colour_off(out));
        for (size_t i = 0; i < size; i++) {
            unsigned char c = (unsigned char)text[i];
            fputc((c < ' ' && c != '\t') || c == 0x7f ? '?' : c, out);
        }
        fputc('\n', out);
        text += size + (text[size] == '\n');
    }
}
