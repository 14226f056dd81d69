/* Parses a document whose external subset gives an entity a value that comes
   from another external entity, which is no text but the start of a tag. */
#include <stdio.h>
#include <string.h>
#include "expat.h"

static const char document[] = "<!DOCTYPE a SYSTEM 'subset'><a/>";
static const char subset[] =
    "<!ENTITY % words SYSTEM 'words'>\n"
    "<!ENTITY saying '%words;'>\n";
static const char good_words[] = "hello";
static const char bad_words[] = "hello <b";

static const char *words;

static int external(XML_Parser parser, const XML_Char *context, const XML_Char *base,
                    const XML_Char *system, const XML_Char *public)
{
    const char *text = strcmp(system, "subset") == 0 ? subset : words;
    XML_Parser inner = XML_ExternalEntityParserCreate(parser, context, NULL);
    enum XML_Status status;

    (void)base;
    (void)public;
    if (inner == NULL)
        return XML_STATUS_ERROR;
    status = XML_Parse(inner, text, (int)strlen(text), 1);
    if (status != XML_STATUS_OK)
        printf("%s: %s\n", system, XML_ErrorString(XML_GetErrorCode(inner)));
    XML_ParserFree(inner);
    return status;
}

int case_main(int good)
{
    XML_Parser parser = XML_ParserCreate(NULL);
    enum XML_Status status;

    words = good ? good_words : bad_words;
    XML_SetParamEntityParsing(parser, XML_PARAM_ENTITY_PARSING_ALWAYS);
    XML_SetExternalEntityRefHandler(parser, external);
    status = XML_Parse(parser, document, (int)strlen(document), 1);
    printf("%s\n", status == XML_STATUS_OK ? "parsed" : "not parsed");
    XML_ParserFree(parser);
    return 0;
}
