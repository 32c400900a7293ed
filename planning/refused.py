"""What is raised when a combination makes no sense, as HDRM anywhere but on a BiGraph."""


class Refused(ValueError):
    """The parts are right but do not go together; the text is the reason.

    A matrix shows it as the row of that one cell; alone it is an error like any other.
    """
