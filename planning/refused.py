"""The exception for a combination that makes no sense, such as HDRM on anything but a BiGraph."""


class Refused(ValueError):
    """The parts are right but do not go together; the text is the reason.

    A matrix shows it as the row of that one cell; alone it is an error like any other.
    """
